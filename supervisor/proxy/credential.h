#ifndef BAILIFF_SUPERVISOR_PROXY_CREDENTIAL_H
#define BAILIFF_SUPERVISOR_PROXY_CREDENTIAL_H

/*
 * Headers that the proxy adds to requests, so that the secret in them never enters the sandbox. Plain HTTP only:
 * nothing can be added to encrypted traffic.
 *
 * A sandbox uses a credential only if its own rules name it, and only for the host that the credential is bound to. A
 * header of the same name that the command sent itself is replaced.
 */

#include "supervisor/proxy/http_head.h"
#include "supervisor/proxy/proxy_msg.h"

#include <stdbool.h>
#include <stddef.h>

#define CREDENTIALS_MAX 16

struct credentials {
	struct credential {
		struct host_rule host;
		struct proxy_credential text;
	} all[CREDENTIALS_MAX];
	size_t count;
};

/* Replaces a credential of the same name. false: malformed, or too many. */
bool credentials_add(struct credentials *s, const struct proxy_credential *c);
/*
 * The header for a request to this target from a sandbox with these rules; NULL = none. The result is *room, whose
 * strings belong to `s` and stay valid until it changes.
 */
const struct http_extra *credentials_for(const struct credentials *s, const struct host_rules *rules,
					 const struct connect_target *t, struct http_extra *room);

#endif
