#include "supervisor/host/git_search.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/workspace.h"
#include "supervisor/host/peer_files_link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FOLDERS_MAX 1024u       /* of one user, so that a user cannot evict another's … */
#define WATCHED_MAX 32u         /* … and those of them whose stamps are known */
#define RUNNING_MAX 16u         /* searches of one user at a time; the others wait */
#define FAILED_NS 200000000ull  /* a failed search is not repeated for this time */
#define AGAIN_NS 3000000000ull  /* between background searches */
#define ANSWER_NS 1000000000ull /* an answer is good for a request that has just asked */
#define RACY_US 50000u          /* a stamp this recent may not change with the next name */

/* The folders on the way to what was found, which is the last of them if it was found at all. */
struct searched {
	int fd[PEER_FILES_SEARCHED_MAX];
	struct file_stamp stamp[PEER_FILES_SEARCHED_MAX];
	uint32_t count;
	uint64_t began_real_us; /* start of the search, by the clock of the stamps */
};

/* The last search by a helper. */
struct git_search {
	TAILQ_ENTRY(git_search) link;
	struct git_searches *owner;
	uint32_t uid;
	char *folder, *home;
	struct peer_files_link *running; /* the current search, or NULL */
	bool queued;                     /* a request waits for one, which has to wait for others */
	uint64_t began_ns;               /* start of the current or last one */
	uint64_t failed_ns;              /* when that failed; 0 = it did not */
	char *root;                      /* what the last one found; NULL = none has ended well */
	uint64_t found_ns;               /* … and its start */
	struct searched way;             /* … and what it depends on; count 0: it holds only for those that waited */
	struct searched fresh;           /* of the current one */
	char failure[160];
};

void git_searches_init(struct git_searches *s, struct event_base *base, struct engine *engine,
		       struct spawn_link *spawner)
{
	*s = (struct git_searches){ .base = base, .engine = engine, .spawner = spawner };
	TAILQ_INIT(&s->folders);
}

static void searched_done(struct searched *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		fd_close(&w->fd[i]);
	w->count = 0;
}

static void git_search_free(struct git_search *g)
{
	TAILQ_REMOVE(&g->owner->folders, g, link);
	peer_files_link_free(g->running);
	searched_done(&g->way);
	searched_done(&g->fresh);
	free(g->folder);
	free(g->home);
	free(g->root);
	free(g);
}

static void answer_done(struct git_answer *a)
{
	free(a->folder);
	free(a->home);
	free(a->root);
	*a = (struct git_answer){ 0 };
}

void git_searches_done(struct git_searches *s)
{
	while (!TAILQ_EMPTY(&s->folders))
		git_search_free(TAILQ_FIRST(&s->folders));
	for (size_t i = 0; i < countof(s->answer); i++)
		answer_done(&s->answer[i]);
}

/*
 * A request asks first whether it has to wait, and then, at once, for the folder again. The kernel may not find a
 * cached name a second time: it gives up while any directory or mount is being changed.
 */
static struct git_answer *find_answer(struct git_searches *s, const struct git_key *at)
{
	for (size_t i = 0; i < countof(s->answer); i++) {
		struct git_answer *a = &s->answer[i];

		if (a->at_ns && a->uid == at->uid && strcmp(a->folder, at->folder) == 0 &&
		    strcmp(a->home, at->home) == 0)
			return a;
	}
	return NULL;
}

static int give_answer(struct git_searches *s, const struct git_key *at, const char *root)
{
	struct git_answer *a = find_answer(s, at);

	if (!a || strcmp(a->root, root) != 0) {
		a = a ? a : &s->answer[s->next_answer++ % countof(s->answer)];
		answer_done(a);
		*a = (struct git_answer){ .uid = at->uid,
					  .folder = mem_strdup(at->folder),
					  .home = mem_strdup(at->home),
					  .root = mem_strdup(root) };
	}
	a->at_ns = clock_boot_ns();
	return 0;
}

/* One with a current search stays: a request waits for it. */
static void make_room(struct git_searches *s, uint32_t uid)
{
	struct git_search *g, *next;
	unsigned own = 0;

	for (g = TAILQ_FIRST(&s->folders); g; g = next) {
		next = TAILQ_NEXT(g, link);
		own += g->uid == uid;
		if (g->uid != uid || own < WATCHED_MAX || g->running || g->queued)
			continue;
		searched_done(&g->way);
		if (own >= FOLDERS_MAX)
			git_search_free(g);
	}
}

static struct git_search *git_search_get(struct git_searches *s, const struct git_key *at)
{
	struct git_search *g;

	TAILQ_FOREACH (g, &s->folders, link)
		if (g->uid == at->uid && strcmp(g->folder, at->folder) == 0 && strcmp(g->home, at->home) == 0)
			break;
	if (g) {
		TAILQ_REMOVE(&s->folders, g, link);
	} else {
		make_room(s, at->uid);
		g = mem_zalloc(1, sizeof *g);
		g->owner = s;
		g->uid = at->uid;
		g->folder = mem_strdup(at->folder);
		g->home = mem_strdup(at->home);
	}
	TAILQ_INSERT_HEAD(&s->folders, g, link);
	return g;
}

/* The reply comes from a process that runs as the peer: it may name only what a search of this folder can find. */
static void on_found(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds)
{
	struct git_search *g = ctx;
	char clean[PATH_MAX];

	if (a->index < PEER_FILES_SEARCHED_MAX && a->index == g->fresh.count && a->nwatch == 1 && nfds == 1) {
		g->fresh.stamp[a->index] = a->watch[0];
		g->fresh.fd[g->fresh.count++] = fd_take(&fds[0]);
	}
	if (a->index != PEER_FILES_GIT)
		return;
	if (a->path[0] && (path_clean(a->path, clean, NULL) < 0 || strcmp(clean, a->path) != 0 ||
			   !path_within(clean, g->folder) || !workspace_is_usable(clean, g->home)))
		return;
	if (g->fresh.count != a->git)
		searched_done(&g->fresh);
	searched_done(&g->way);
	g->way = g->fresh;
	g->fresh.count = 0;
	free(g->root);
	g->root = mem_strdup(a->path);
	g->found_ns = g->began_ns;
}

static bool may_run(const struct git_searches *s, uint32_t uid)
{
	const struct git_search *g;
	unsigned running = 0;

	TAILQ_FOREACH (g, &s->folders, link)
		running += g->uid == uid && g->running;
	return running < RUNNING_MAX;
}

static struct git_search *find_queued(const struct git_searches *s, uint32_t uid)
{
	struct git_search *g;

	TAILQ_FOREACH (g, &s->folders, link)
		if (g->uid == uid && g->queued)
			return g;
	return NULL;
}

static void continue_requests(struct git_searches *s, const struct git_search *g)
{
	mem_auto char *folder = mem_strdup(g->folder); /* a request that continues may evict the entry */

	engine_on_policy(s->engine, g->uid, folder);
}

/* The request of a queued search asks again, and starts it. */
static void on_over(void *ctx, const struct err *e)
{
	struct git_search *g = ctx;
	struct git_searches *s = g->owner;
	const uint32_t uid = g->uid;

	g->running = NULL;
	g->failed_ns = 0;
	if (e || g->found_ns != g->began_ns) {
		snprintf(g->failure, sizeof g->failure, "%.150s", e ? e->message : "the helper found nothing");
		g->failed_ns = clock_boot_ns();
	}
	continue_requests(s, g);
	while (may_run(s, uid) && (g = find_queued(s, uid))) {
		g->queued = false;
		continue_requests(s, g);
	}
}

static int start_search(struct git_search *g, int peer_fd, struct err *e)
{
	static const struct peer_files_link_events on = { on_found, on_over };
	buf_auto struct buf request = BUF_INIT;

	if (peer_fd < 0)
		return err_set(e, ERR_UNAVAILABLE,
			       "'%.200s' is searched as its user, but no client of uid %u has connected since the "
			       "daemon started",
			       g->folder, (unsigned)g->uid);
	buf_append(&request, g->folder, strlen(g->folder) + 1);
	buf_append(&request, g->home, strlen(g->home) + 1);
	searched_done(&g->fresh);
	g->began_ns = clock_boot_ns();
	g->fresh.began_real_us = clock_real_us();
	g->running = peer_files_link_new(g->owner->base, g->owner->spawner, PEER_FILES_FIND, request.data, request.len,
					 peer_fd, &on, g);
	return g->running ? 0 : err_sys(e, errno, "search '%s'", g->folder);
}

static int fail_search(const struct git_search *g, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "'%.300s' cannot be examined: %s", g->folder, g->failure);
}

/* With a stamp of just before the search, the next name may not have changed it. */
static bool is_racy(const struct searched *w, uint32_t i)
{
	const struct file_stamp *t = &w->stamp[i];

	return (uint64_t)t->changed_s * 1000000 + t->changed_ns / 1000 + RACY_US > w->began_real_us;
}

/* Other names may come and go if .git can be checked; a folder that was moved has another ctime, but not mtime. */
static bool is_same(const struct git_search *g, uint32_t i)
{
	const struct file_stamp *then = &g->way.stamp[i];
	const bool had = g->root[0] && i + 1 == g->way.count;
	struct file_stamp now;

	if (file_stamp_get(g->way.fd[i], &now) < 0)
		return false;
	if (file_stamp_equal(&now, then) && !is_racy(&g->way, i))
		return true;
	const bool moved = now.modified_s == then->modified_s && now.modified_ns == then->modified_ns &&
			   !file_stamp_equal(&now, then);
	return !moved && workspace_git_cached(g->way.fd[i], ".git") == had;
}

static bool is_valid(const struct git_search *g)
{
	for (uint32_t i = 0; i < g->way.count; i++)
		if (!is_same(g, i))
			return false;
	return g->way.count && !g->failed_ns;
}

int git_searches_of(struct git_searches *s, const struct git_key *at, char ret[PATH_MAX], struct err *e)
{
	struct err later = ERR_INIT;

	if (workspace_search(at->folder, at->home, true, ret) == 0)
		return give_answer(s, at, ret);
	const struct git_answer *last = at->since_ns ? NULL : find_answer(s, at);
	if (last && clock_boot_ns() - last->at_ns < ANSWER_NS) {
		snprintf(ret, PATH_MAX, "%s", last->root);
		return 0;
	}
	struct git_search *g = git_search_get(s, at);
	if (g->root && (is_valid(g) || (!g->running && !g->failed_ns && g->found_ns >= at->since_ns))) {
		snprintf(ret, PATH_MAX, "%s", g->root);
		if (!g->running && clock_boot_ns() - g->found_ns > AGAIN_NS && at->peer_fd >= 0 && may_run(s, g->uid))
			(void)start_search(g, at->peer_fd, &later);
		return give_answer(s, at, ret);
	}
	if (g->running || g->queued)
		return 1;
	if (g->failed_ns && (g->began_ns >= at->since_ns || clock_boot_ns() - g->failed_ns < FAILED_NS))
		return fail_search(g, e);
	g->queued = !may_run(s, at->uid);
	return g->queued ? 1 : start_search(g, at->peer_fd, e) < 0 ? -1 : 1;
}
