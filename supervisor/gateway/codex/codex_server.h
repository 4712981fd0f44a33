#ifndef BAILIFF_GATEWAY_CODEX_SERVER_H
#define BAILIFF_GATEWAY_CODEX_SERVER_H

/*
 * The executor of a Codex client ("exec-server"): it runs commands and touches files where we are, and Codex does the
 * rest.
 *
 * Every process is one of bailiff's, in a bailiff session that is the client's. What the client knows by a number (its
 * process ids, the sequence numbers of output) follows from the session's events alone: process ids are kept in the
 * justification of a start, and the n-th piece of output is the n-th that the log tells of. So a client that comes
 * back, to another process of this program, finds what it left (resumeSessionId), with the numbers it knows.
 *
 *   codex_server            the handshake, and who gets which request
 *   codex_call              one request
 *   codex_launch            a start: the sandbox that is meant, narrowed from the profile (intent), then start_process
 *   codex_process           the processes, as folds of the session's events; what is told of them
 *   codex_process_calls     requests about them
 *   codex_fs, codex_handle  files, each touched by a process of its own inside the sandbox (bailiff-tool fs)
 *   codex_heir              what ends the client's processes when this program was killed and nobody comes back
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
	uint64_t approval_ms; /* how long a start waits for a person whom policy asks */
	int reaper_fd;        /* the heir is told the session's id here; −1 = there is none */
};

struct codex_server_ops {
	void (*send)(void *ctx, json_t *message);     /* takes it over */
	bool (*flushed)(void *ctx);                   /* what was sent before has been taken */
	void (*wake)(void *ctx);                      /* no longer busy */
	void (*lost)(void *ctx, const struct err *e); /* the daemon stays away; free it, but not in this call */
};

struct codex_server *codex_server_new(struct event_base *base, const struct codex_options *o,
				      const struct codex_server_ops *ops, void *ctx);
/* The client has gone: what it runs is ended. The loop has something to do until the daemon has been told. */
void codex_server_free(struct codex_server *s);
void codex_server_feed(struct codex_server *s, const char *line, size_t len);
void codex_server_too_long(struct codex_server *s);
bool codex_server_busy(const struct codex_server *s);

#endif
