#ifndef BAILIFF_SUPERVISOR_HOST_SPAWN_LINK_H
#define BAILIFF_SUPERVISOR_HOST_SPAWN_LINK_H

/*
 * The runtime's side of its link to the spawner (spawn_msg.h). Requests wait here until the socket takes them, and may
 * outlive the spawner that they were first meant for. When a spawner dies, every start that was sent to it and not
 * answered is reported by `unanswered`.
 */

#include "supervisor/spawner/spawn_msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct event;
struct port_expected;
struct event_base;
struct err;

#define SPAWN_FDS_MAX 8

struct spawn_request {
	TAILQ_ENTRY(spawn_request) link;
	int fds[SPAWN_FDS_MAX]; /* owned */
	size_t nfds;
	bool sent;
	struct spawn_msg msg;
	char plan[]; /* msg.plan_len bytes, which are sent with it */
};

TAILQ_HEAD(spawn_requests, spawn_request);

struct spawn_link_events {
	void (*started)(void *ctx, const struct spawn_msg *m, int pidfd); /* pidfd is taken */
	void (*limited)(void *ctx, const struct spawn_msg *m);
	void (*failed)(void *ctx, const struct spawn_msg *m);
	/* This start was sent to a spawner that died: its outcome is unknown. */
	void (*unanswered)(void *ctx, const struct plan_key *key);
	void (*changed)(void *ctx, const struct spawn_msg *m); /* ECONNRESET: that spawner died */
	void (*broken)(void *ctx);                             /* the link no longer works: another spawner is needed */
};

struct spawn_link {
	int fd;
	struct event_base *base;
	struct event *read_ev, *write_ev;
	struct spawn_requests requests; /* unanswered, in order; the sent ones first */
	const struct spawn_link_events *on;
	void *ctx;
	uint64_t expected; /* requests announced so far */
	bool broken;       /* waiting for another spawner */
	int answered_cpu;  /* CPU on which a client was last notified of an end; −1 = none yet */
};

void spawn_link_init(struct spawn_link *l, int fd, const struct spawn_link_events *on, void *ctx);
void spawn_link_listen(struct spawn_link *l, struct event_base *base);
void spawn_link_done(struct spawn_link *l);
/* The guard started another spawner. */
void spawn_link_replace(struct spawn_link *l, int fd);
/* A request with a plan: one of the descriptors, or, if it is not longer than SPAWN_INLINE_MAX, `plan`. */
struct spawn_launch {
	const struct plan_key *key;
	uint32_t flags;
	const void *plan; /* NULL = the first descriptor */
	size_t plan_len;
	const int *fds; /* taken */
	size_t nfds;
};
void spawn_link_start(struct spawn_link *l, const struct spawn_launch *s, const struct port_expected *x);
/* LIMIT for a member of the holder with this pid and key. */
void spawn_link_limit(struct spawn_link *l, const struct spawn_launch *s, const struct plan_key *holder, int32_t pid);
/* Announces that a start of this kind is likely to follow. Returns what to send with it; zeros if that is not possible
 * now. */
struct port_expected spawn_link_announce(struct spawn_link *l, uint64_t hint);
/* A request about changes (answered by `changed`) or peer files (answered on its own socket). Takes the descriptors. */
void spawn_link_request(struct spawn_link *l, const struct spawn_msg *m, const int *fds, size_t nfds);
/* Called where a client is notified of an end: its next request tends to come from this CPU. */
void spawn_link_answered(struct spawn_link *l);
const char *spawn_link_state(const struct spawn_link *l); /* as in get_health */
void spawn_link_remove_leaf(struct spawn_link *l, const struct plan_key *key);
/* Requests a mark among the audit records. false = not now: another spawner is on its way. */
bool spawn_link_mark(struct spawn_link *l, uint64_t token);
/* SYNC and its reply, before the loop runs: 0; 1 = this spawner died, wait for another link. */
int spawn_link_sync(struct spawn_link *l);

#endif
