#ifndef BAILIFF_VIEW_ENVIRONMENT_H
#define BAILIFF_VIEW_ENVIRONMENT_H

/*
 * What a turn runs in: its execution environment with the live processes, and its permissions with the sandbox and its
 * violations. What no event records is reported as unknown or not_applicable, never guessed.
 */

#include <stdint.h>

struct buf;
struct err;
struct store;

/* Of a turn, or the newest turn of a thread, or the newest of a session's newest thread: the first of the ids that is
 * given. */
struct view_scope {
	const char *session_id, *thread_id, *turn_id;
};
int view_execution_environment(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			       struct err *e);
int view_permission_sandbox(struct store *s, uint32_t uid, const struct view_scope *scope, struct buf *out,
			    struct err *e);

#endif
