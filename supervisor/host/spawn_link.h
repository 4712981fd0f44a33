#ifndef BAILIFF_SUPERVISOR_HOST_SPAWN_LINK_H
#define BAILIFF_SUPERVISOR_HOST_SPAWN_LINK_H

/*
 * The runtime's side of its link to the spawner (spawn_msg.h). Starts wait here until the socket takes them; they may
 * outlive the spawner they were first meant for. When a spawner dies, whoever was sent to it and not answered is
 * reported by `unanswered`.
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
	void (*failed)(void *ctx, const struct spawn_msg *m);
	/* This start was sent to a spawner that is gone: it is not known what it did. */
	void (*unanswered)(void *ctx, const struct plan_key *key);
	void (*changed)(void *ctx, const struct spawn_msg *m); /* ECONNRESET: that spawner is gone */
	void (*broken)(void *ctx); /* nothing comes on this link any more: another spawner is needed */
};

struct spawn_link {
	int fd;
	struct event_base *base;
	struct event *read_ev, *write_ev;
	struct spawn_requests requests; /* not answered yet, in order; the sent ones first */
	const struct spawn_link_events *on;
	void *ctx;
	uint64_t expected; /* so many requests were told of */
	bool broken;       /* it waits for another spawner */
	int answered_cpu;  /* where a client was last told of an end; −1 = nowhere yet */
};

void spawn_link_init(struct spawn_link *l, int fd, const struct spawn_link_events *on, void *ctx);
void spawn_link_listen(struct spawn_link *l, struct event_base *base);
void spawn_link_done(struct spawn_link *l);
/* The guard started another spawner. */
void spawn_link_replace(struct spawn_link *l, int fd);
/* Takes the descriptors. The plan is one of them, or, if it is not longer than SPAWN_INLINE_MAX, `plan`; else that is
 * NULL. */
void spawn_link_start(struct spawn_link *l, const struct plan_key *key, uint32_t flags, const struct port_expected *x,
		      const void *plan, size_t plan_len, const int *fds, size_t nfds);
/* A start of this sort is likely to follow. What to give with it; without meaning if it cannot be told now. */
struct port_expected spawn_link_announce(struct spawn_link *l, uint64_t hint);
/* A request about changes (answered by `changed`), or to look (answered on its own socket). Takes the descriptors. */
void spawn_link_request(struct spawn_link *l, const struct spawn_msg *m, const int *fds, size_t nfds);
/* Here and now a client is told of an end: who is woken so comes back from this processor. */
void spawn_link_answered(struct spawn_link *l);
const char *spawn_link_state(const struct spawn_link *l); /* as in get_health */
void spawn_link_remove_leaf(struct spawn_link *l, const struct plan_key *key);
/* Asks for a mark among the audit records. false = not now: there will be another spawner. */
bool spawn_link_mark(struct spawn_link *l, uint64_t token);
/* SYNC and its answer, before the loop runs: 0; 1 = this spawner is gone, wait for another link. */
int spawn_link_sync(struct spawn_link *l);

#endif
