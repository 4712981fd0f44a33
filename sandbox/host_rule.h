#ifndef BAILIFF_SANDBOX_HOST_RULE_H
#define BAILIFF_SANDBOX_HOST_RULE_H

/*
 * Which hosts a sandbox may reach through the proxy. A rule has a text form for people and a row form for the proxy:
 *
 *   example.com          this name, on every port          example.com:443      on this one
 *   *.example.com        every name below it, not itself   *, *:443             every name
 *   192.0.2.7, [2001:db8::1]:8080, 10.1.0.0/16:5432        addresses
 *
 * Rules that deny take precedence. An allowed name may be resolved, and the resulting address is checked again:
 * internal addresses (loopback, private, link-local, metadata …) are denied unless a rule names that address, or a
 * network of only such addresses; otherwise a DNS record could open them against the operator's intent. The exact name
 * `localhost` is the only name that implies such an address. A literal address is allowed only by a rule for addresses,
 * not by `*`.
 */

#include "sandbox/net_address.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define HOST_NAME_MAX_LEN 253
#define HOST_RULES_MAX 1024u /* of one sandbox */

enum host_rule_kind {
	HOST_RULE_NAME = 1,
	HOST_RULE_BELOW,
	HOST_RULE_ANY,
	HOST_RULE_NET,
	HOST_RULE_CREDENTIAL, /* allows nothing: the proxy may use its credential of this name */
};

/* Also the row format that is sent to the proxy: no pointers, no padding. */
struct host_rule {
	uint8_t kind;
	uint8_t deny;
	uint16_t port; /* 0 = all */
	uint8_t bits;  /* NET: 128 = one address */
	uint8_t reserved[3];
	struct net_address net; /* NET */
	char name[256];         /* NAME, BELOW (without "*."), CREDENTIAL: lower case */
};

struct host_rules {
	struct host_rule *rule;
	size_t count;
};

enum host_verdict {
	HOST_ALLOWED,
	HOST_NOT_LISTED,
	HOST_DENIED, /* by a rule */
	HOST_INSIDE, /* an internal address that must be named */
};

/*
 * Converts to lower case, without the trailing dot. false: not a valid host name, or one that resolvers parse as a
 * number.
 */
bool host_name_clean(const char *text, size_t len, char ret[HOST_NAME_MAX_LEN + 1]);
/* Splits "host", "host:port", "[v6]:port", "v6"; *ret_port 0 = no port. */
bool host_split(const char *text, size_t len, char host[256], uint16_t *ret_port);

int host_rule_parse(const char *text, bool deny, struct host_rule *ret, struct err *e);
/* false: the name has characters that are not valid in host names. */
bool host_rule_credential(const char *name, struct host_rule *ret);
bool host_rule_allows(const struct host_rule *r); /* some host */
/* Validates a row from another process. */
bool host_rule_valid(const struct host_rule *r);
void host_rule_text(const struct host_rule *r, struct buf *out);

void host_rules_add(struct host_rules *s,
		    const struct host_rule *r); /* skips duplicates; the caller checks HOST_RULES_MAX */
void host_rules_copy(const struct host_rules *from, struct host_rules *ret);
void host_rules_done(struct host_rules *s);
/* Whether existing rules already allow everything that `r` allows. */
bool host_rules_include(const struct host_rules *s, const struct host_rule *r);

/* Whether this (clean) name may be requested at all. */
enum host_verdict host_rules_name(const struct host_rules *s, const char *name, uint16_t port);
/* Whether this address may be dialled. name NULL = the address itself was requested. */
enum host_verdict host_rules_address(const struct host_rules *s, const char *name, const struct net_address *a,
				     uint16_t port);
/* Whether a rule allows this name or address on the host itself, not inside the sandbox. */
bool host_rules_allow_literal(const struct host_rules *s, const char *text);

#endif
