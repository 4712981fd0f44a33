#include "supervisor/spawner/resolver_answer.h"

#include "runtime/base/fd.h"
#include "sandbox/refusing_resolver.h"
#include "sandbox/status.h"
#include "sandbox/steps/step.h"

#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#define LOOKUPS_A_TURN 16

/* Each name is reported once, up to a limit: this bounds how many messages a command can cause. */
static bool is_new_name(struct resolver_names *known, const char *name)
{
	uint64_t hash = 14695981039346656037u;
	for (const char *p = name; *p; p++)
		hash = (hash ^ (unsigned char)*p) * 1099511628211u;
	for (size_t i = 0; i < known->count; i++) {
		if (known->hash[i] == hash)
			return false;
	}
	if (known->count == RESOLVER_NAMES_MAX)
		return false;
	known->hash[known->count++] = hash;
	return true;
}

/*
 * Programs look up their own host name at start and reverse names when they log; blocking those is not worth a report.
 */
static bool is_own_name(const char *name)
{
	struct utsname own;
	size_t n = strlen(name);
	return (n > 5 && strcmp(name + n - 5, ".arpa") == 0) ||
	       (uname(&own) == 0 && strcasecmp(own.nodename, name) == 0);
}

/*
 * Reports a lookup before it replies, so that the report precedes the end of a command that waits for the reply. Best
 * effort: never waits for a runtime that does not read.
 */
void resolver_answer(const struct step_context *c, struct resolver_names *known)
{
	for (int i = 0; i < LOOKUPS_A_TURN; i++) {
		unsigned char packet[RESOLVER_PACKET_MAX];
		struct sockaddr_in from;
		socklen_t len = sizeof from;
		struct status_msg m = { .kind = STATUS_LOOKUP };
		ssize_t n = recvfrom(c->resolver_fd, packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&from,
				     &len);
		if (n < 0)
			return;
		size_t answer = refusing_resolver_reply(packet, (size_t)n, m.path);
		if (m.path[0] && !is_own_name(m.path) && is_new_name(known, m.path))
			(void)!fd_send(c->status_fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (answer)
			(void)!sendto(c->resolver_fd, packet, answer, MSG_DONTWAIT, (struct sockaddr *)&from, len);
	}
}
