#ifndef BAILIFF_SUPERVISOR_HOST_GIT_SEARCH_H
#define BAILIFF_SUPERVISOR_HOST_GIT_SEARCH_H

/*
 * Finds the repository that a folder is in, without waiting for its file system. Usually the kernel has the names
 * cached, so the search takes a few system calls and no other process. Otherwise a helper of the spawner searches as
 * the peer (peer_files.h), which also brings the names into the cache. What it found stays valid while the folders on
 * the way are unchanged, by their stamps (file_stamp.h); for folders that the runtime cannot enter that is the only way
 * to tell. As in workspace_policy.h it is searched again in the background every few seconds, because a folder that was
 * moved together with its parents keeps its stamps.
 *
 * If the helper gets no answer in time, the requests that wait for it fail; nothing else waits.
 */

#include "runtime/engine/core/ports.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/queue.h>

struct engine;
struct err;
struct event_base;
struct git_search;
struct spawn_link;

#define GIT_ANSWERS_MAX 16u

/* A recent answer. */
struct git_answer {
	uint32_t uid;
	uint64_t at_ns; /* 0 = unused */
	char *folder, *home, *root;
};

struct git_searches {
	struct event_base *base;
	struct engine *engine;
	struct spawn_link *spawner;
	TAILQ_HEAD(git_search_head, git_search) folders; /* last used first */
	struct git_answer answer[GIT_ANSWERS_MAX];
	unsigned next_answer;
};

void git_searches_init(struct git_searches *s, struct event_base *base, struct engine *engine,
		       struct spawn_link *spawner);
void git_searches_done(struct git_searches *s);
/* ports.git_of */
int git_searches_of(struct git_searches *s, const struct git_key *at, char ret[PATH_MAX], struct err *e);

#endif
