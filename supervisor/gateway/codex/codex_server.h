#ifndef BAILIFF_GATEWAY_CODEX_SERVER_H
#define BAILIFF_GATEWAY_CODEX_SERVER_H

/*
 * The executor of a Codex client ("exec-server"): it runs commands and accesses files on this machine; Codex does the
 * rest.
 *
 * Every process is a bailiff process, in a bailiff session that belongs to the client. All numbers that the client
 * knows (its process ids, the sequence numbers of output) are derived from the session's events: the client's process
 * id is stored in the justification of the start, and the n-th chunk of output is the n-th one in the log. A client
 * that reconnects to another instance of this program (resumeSessionId) therefore finds its processes under the same
 * numbers.
 *
 *   codex_server            handshake and dispatch of requests
 *   codex_call              one request
 *   codex_launch            a start: the requested sandbox as a narrowed profile (sandbox_intent), then start_process
 *   codex_process           processes, computed from the session's events, and notifications about them
 *   codex_process_calls     requests about processes
 *   codex_fs, codex_handle  files, each accessed by a separate process inside the sandbox (bailiff-tool fs)
 *   session_reaper          terminates the client's processes if this program is killed and the client does not return
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codex_server;
struct err;
struct event_base;

struct codex_options {
	const char *profile;  /* NULL = the default */
	uint64_t approval_ms; /* how long a start waits for an approval */
	int reaper_fd;        /* receives the session's id for the reaper; −1: no reaper */
};

struct codex_server_ops {
	void (*send)(void *ctx, json_t *message); /* takes ownership */
	bool (*flushed)(void *ctx);               /* all earlier messages have been written */
	void (*wake)(void *ctx);                  /* no longer busy */
	void (*lost)(void *ctx,
		     const struct err *e); /* the daemon is unreachable; free the server, but not from this call */
};

struct codex_server *codex_server_new(struct event_base *base, const struct codex_options *o,
				      const struct codex_server_ops *ops, void *ctx);
/*
 * The client has disconnected: terminates its processes. The loop stays busy until the daemon has received the
 * requests.
 */
void codex_server_free(struct codex_server *s);
void codex_server_feed(struct codex_server *s, const char *line, size_t len);
void codex_server_too_long(struct codex_server *s);
bool codex_server_busy(const struct codex_server *s);

#endif
