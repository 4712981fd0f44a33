#include "supervisor/host/workspace_policy.h"

#include "policy/hooks.h"
#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/core/engine.h"
#include "sandbox/host_fingerprint.h"
#include "sandbox/workspace.h"
#include "supervisor/host/peer_files_link.h"
#include "supervisor/host/policy_files.h"
#include "supervisor/host/workspace_repos.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * When a cached result may be used: the stamps (device, inode, size and times) of the directories and files on the way
 * are the same as when they were read. Two gaps are closed separately. Time stamps are coarse, so a file that was
 * written just before it was read may be written again without a new stamp: such a result is `racy` and is read again,
 * as git does with its index. And a directory that is moved together with its parents keeps its stamps: hence a start
 * that finds a result older than AGAIN_NS uses it, but requests the files again in the background.
 *
 * While a request is in progress a start waits for it (workspace_policies_of returns 1, engine_on_policy follows). It
 * never proceeds with rules that may be out of date, since the new ones may deny it. If a request fails, starts are
 * rejected for FAILED_NS without a new one, so that a broken file system does not cost every start a timeout.
 */

#define WORKSPACES_MAX 64u
#define KEPT_MAX 32u           /* in addition: a command cannot evict these by working in many workspaces */
#define AGAIN_NS 3000000000ull /* between background requests */
#define FAILED_NS 200000000ull /* a failed request is not repeated for this time */
#define RACY_US 50000u         /* a stamp this recent may not change with the next write */

/* One file and its last content. */
struct policy_file {
	char *name; /* path of the file */
	bool user;  /* the peer's own, not a workspace's */
	int fds[PEER_FILES_WATCH_MAX];
	struct file_stamp stamp[PEER_FILES_WATCH_MAX];
	uint32_t nwatch;
	char *text; /* the version in effect; NULL = none */
	size_t len;
	char seen[HASH_SHA256_TEXT];   /* hash of the last content, valid or not; "" = no file */
	char problem[ERR_MESSAGE_MAX]; /* why that content cannot be used; "" = it can */
	bool answered;                 /* by the current request */
};

struct workspace_policy {
	TAILQ_ENTRY(workspace_policy) link;
	struct workspace_policies *owner;
	uint32_t uid;
	char *workspace;
	struct policy_file *source;
	size_t count;
	struct peer_files_link *look; /* the current request */
	uint64_t began_ns;            /* start of the current or last request … */
	uint64_t began_real_us;       /* … by the clock of file stamps */
	uint64_t read_ns;             /* start of the last successful one; 0 = never */
	uint64_t failed_ns;           /* when the last one failed; 0 = it succeeded */
	bool shortage, again;         /* of memory or descriptors, in this request; it repeats one that had that */
	bool racy;                    /* the cached files may have changed without a new stamp … */
	bool found_racy;              /* … according to the current request */
	bool stale;                   /* a reply of the current request changed a file; `rules` follow at its end */
	bool too_deep;                /* nested in more directories than a request can name */
	bool below;                   /* the current request also searches for repositories */
	struct workspace_repos repos;
	bool kept; /* among the first KEPT_MAX with nested paths */
	char failure[160];
	struct policy_rules rules; /* of all layers … */
	struct policy_hooks hooks;
	bool together;       /* … if a file adds to the policy that applies everywhere */
	unsigned generation; /* of policy_files */
	char problem[ERR_MESSAGE_MAX];
};

void workspace_policies_init(struct workspace_policies *p, struct event_base *base, struct engine *engine,
			     struct spawn_link *spawner, const struct policy_files *files, bool peers)
{
	*p = (struct workspace_policies){
		.base = base, .engine = engine, .spawner = spawner, .files = files, .peers = peers
	};
	TAILQ_INIT(&p->workspaces);
}

static void close_watch(struct policy_file *s)
{
	for (uint32_t i = 0; i < s->nwatch; i++)
		fd_close(&s->fds[i]);
	s->nwatch = 0;
}

static void sources_free(struct workspace_policy *l)
{
	for (size_t i = 0; i < l->count; i++) {
		close_watch(&l->source[i]);
		free(l->source[i].name);
		free(l->source[i].text);
	}
	free(l->source);
	l->source = NULL;
	l->count = 0;
}

static void workspace_policy_free(struct workspace_policy *l)
{
	TAILQ_REMOVE(&l->owner->workspaces, l, link);
	l->owner->count--;
	peer_files_link_free(l->look);
	sources_free(l);
	policy_rules_done(&l->rules);
	policy_hooks_done(&l->hooks);
	workspace_repos_done(&l->repos);
	free(l->workspace);
	free(l);
}

void workspace_policies_done(struct workspace_policies *p)
{
	while (!TAILQ_EMPTY(&p->workspaces))
		workspace_policy_free(TAILQ_FIRST(&p->workspaces));
}

/* The cached text stays until the next request, which read_ns 0 forces. */
void workspace_policies_forget(struct workspace_policies *p, uint32_t uid)
{
	struct workspace_policy *l;

	TAILQ_FOREACH (l, &p->workspaces, link)
		if (l->uid == uid)
			l->read_ns = 0;
}

/* ---- the cache ---- */

/*
 * Makes room for one more. Entries with a current request stay: evicting one would repeat the request, so if all have
 * one the cache exceeds its size for a while.
 */
static void make_room(struct workspace_policies *p)
{
	struct workspace_policy *l, *before;

	for (l = TAILQ_LAST(&p->workspaces, workspace_policy_head); l && p->count >= WORKSPACES_MAX + p->kept;
	     l = before) {
		before = TAILQ_PREV(l, workspace_policy_head, link);
		if (!l->look && !l->kept)
			workspace_policy_free(l);
	}
}

/* Most recently used first. The files are those of the peer and of each directory from the workspace up. */
static struct workspace_policy *workspace_policy_get(struct workspace_policies *p, const struct policy_key *at)
{
	struct workspace_policy *l;

	TAILQ_FOREACH (l, &p->workspaces, link)
		if (l->uid == at->uid && strcmp(l->workspace, at->workspace) == 0)
			break;
	if (l) {
		TAILQ_REMOVE(&p->workspaces, l, link);
		TAILQ_INSERT_HEAD(&p->workspaces, l, link);
		return l;
	}
	buf_auto struct buf folders = BUF_INIT;
	make_room(p);
	l = mem_zalloc(1, sizeof *l);
	l->owner = p;
	l->uid = at->uid;
	l->workspace = mem_strdup(at->workspace);
	l->rules = RULES_INIT;
	if (at->workspace[0])
		workspace_above(at->workspace, at->home ? at->home : "", &folders);
	l->source = mem_zalloc(PEER_FILES_FOLDERS_MAX + 1, sizeof *l->source);
	if (p->peers)
		l->source[l->count++] = (struct policy_file){ .user = true,
							      .name = mem_strdup("~/.config/bailiff/policy.json") };
	for (const char *s = folders.data; s && s < folders.data + folders.len && !l->too_deep; s += strlen(s) + 1) {
		l->too_deep = l->count == PEER_FILES_FOLDERS_MAX;
		if (!l->too_deep)
			l->source[l->count++] = (struct policy_file){ .name = mem_printf("%s/.bailiff/policy.json",
											 s) };
	}
	TAILQ_INSERT_HEAD(&p->workspaces, l, link);
	p->count++;
	return l;
}

/* ---- combining the layers ---- */

static enum rule_layer layer_of(const struct policy_file *s) { return s->user ? RULE_OF_USER : RULE_OF_WORKSPACE; }

/* The files that apply everywhere come first, then those of this peer and workspace. */
static int combine_layers(struct workspace_policy *l, struct policy_rules *ret, struct policy_hooks *hooks,
			  struct err *e)
{
	if (policy_files_parse_again(l->owner->files, ret, hooks, e) < 0)
		return -1;
	for (size_t i = 0; i < l->count; i++) {
		const struct policy_file *s = &l->source[i];

		if (s->text && (policy_rules_parse(ret, layer_of(s), s->name, s->text, s->len, e) < 0 ||
				policy_hooks_parse(hooks, layer_of(s), s->name, s->text, s->len, e) < 0))
			return -1;
	}
	return 0;
}

/* The old rules stay valid until the new ones are complete; `problem` blocks starts if they cannot be combined. */
static void rebuild_rules(struct workspace_policy *l)
{
	struct policy_rules fresh = RULES_INIT;
	struct policy_hooks hooks = { 0 };
	struct err e = ERR_INIT;
	bool any = false;

	for (size_t i = 0; i < l->count; i++)
		any |= l->source[i].text != NULL;
	l->problem[0] = '\0';
	if (any && combine_layers(l, &fresh, &hooks, &e) < 0)
		snprintf(l->problem, sizeof l->problem, "%s", e.message);
	policy_rules_done(&l->rules);
	policy_hooks_done(&l->hooks);
	l->rules = fresh;
	l->hooks = hooks;
	l->rules.hooks = &l->hooks;
	l->together = any;
	l->stale = false;
	l->generation = l->owner->files->generation;
	/* A file without a previous version has invalid content. */
	for (size_t i = 0; i < l->count && !l->problem[0]; i++)
		if (l->source[i].problem[0] && !l->source[i].text)
			snprintf(l->problem, sizeof l->problem, "%s", l->source[i].problem);
}

/* ---- reading files ---- */

/* Installed only if it is valid for its layer; combining it with other layers cannot fail then. */
static bool install_text(struct policy_file *s, char *text, size_t len)
{
	struct policy_rules alone = RULES_INIT;
	struct policy_hooks hooks = { 0 };
	struct err e = ERR_INIT;
	bool good = policy_rules_parse(&alone, layer_of(s), s->name, text, len, &e) == 0 &&
		    policy_hooks_parse(&hooks, layer_of(s), s->name, text, len, &e) == 0;

	policy_rules_done(&alone);
	policy_hooks_done(&hooks);
	if (!good) {
		snprintf(s->problem, sizeof s->problem, "%s", e.message);
		free(text);
		return false;
	}
	free(s->text);
	s->text = text;
	s->len = len;
	s->problem[0] = '\0';
	return true;
}

/* The memfd comes from a process that runs as the peer: without a write seal its content could change. */
static char *read_memfd(int fd, size_t *ret_len)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_WRITE) || fstat(fd, &st) < 0 || st.st_size > (off_t)PEER_FILES_TEXT_MAX)
		return NULL;
	char *text = mem_alloc((size_t)st.st_size + 1);
	ssize_t n = pread(fd, text, (size_t)st.st_size, 0);
	if (n != st.st_size) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	*ret_len = (size_t)n;
	return text;
}

static const char *why_not(int error)
{
	switch (error) {
	case ELOOP: return "the file or a directory of its path is a symbolic link";
	case EXDEV: return "its path leads out of its directory";
	case EINVAL: return "it is not a regular file";
	case EFBIG: return "it is larger than 1 MiB";
	case EAGAIN: return "it is being written";
	default: return strerror(error);
	}
}

/* Each change is recorded once: handle_reply compares hashes first. */
static void report_policy(struct workspace_policy *l, const struct policy_file *s, const char *hash)
{
	const char *layer = s->user ? "user" : "workspace";
	buf_auto struct buf summary = BUF_INIT;

	if (s->problem[0]) {
		engine_warn(l->owner->engine, "policy_not_loaded",
			    s->text ? "fix the file; the previous version stays in effect until then"
				    : "fix or remove the file; nothing is started there until then",
			    "%s", s->problem);
		return;
	}
	buf_printf(&summary, hash[0] ? "%s was read" : "%s is gone", s->name);
	engine_policy_file_is(l->owner->engine, layer, s->name, l->uid, hash, summary.data);
}

/* The hash stands for the content, or for the error; an unchanged one needs no parsing and no event. */
static void handle_reply(struct workspace_policy *l, struct policy_file *s, const struct peer_files_reply *a, int fd)
{
	char hash[HASH_SHA256_TEXT] = "";
	size_t len = 0;
	char *text = a->error ? NULL : read_memfd(fd, &len);

	/* The peer cannot work in a directory that it cannot enter: the sandbox will report it. */
	if (text)
		hash_sha256_text(text, len, hash);
	else if (a->error != ENOENT && (a->nwatch || (a->error != EACCES && a->error != ENOTDIR)))
		snprintf(hash, sizeof hash, "error %d", a->error ? a->error : EIO);
	if (strcmp(hash, s->seen) == 0) {
		free(text);
		return;
	}
	memcpy(s->seen, hash, sizeof hash);
	l->stale = true;
	if (text && strspn(text, " \t\r\n") == len) { /* an empty file counts as no file */
		free(text);
		free(s->text);
		s->text = NULL;
		s->problem[0] = '\0';
	} else if (text) {
		install_text(s, text, len);
	} else if (hash[0]) {
		snprintf(s->problem, sizeof s->problem, "%.200s: %s", s->name, why_not(a->error ? a->error : EIO));
	} else {
		free(s->text);
		s->text = NULL;
		s->problem[0] = '\0';
	}
	report_policy(l, s, hash);
}

/*
 * Most directories have no .bailiff. Whether that is still so can be checked directly if the runtime may search the
 * directory and the name is cached, whatever else is created there. That the path still leads to it must be checked by
 * path.
 */
enum presence { LACKS_IT, HAS_IT, UNSEEN };

/* −1 = unknown without asking a file system that may block. */
static int leads_there(const struct policy_file *s)
{
	mem_auto char *folder = mem_strndup(s->name, strlen(s->name) - strlen("/.bailiff/policy.json"));
	fd_auto int fd = fingerprint_open(folder, true, true);
	struct file_stamp now;

	if (fd < 0 || file_stamp_get(fd, &now) < 0)
		return -1;
	return now.dev == s->stamp[0].dev && now.ino == s->stamp[0].ino;
}

/* Saves a request to the helper in the common case of a directory without .bailiff. */
static enum presence check_inside(const struct policy_file *s)
{
	const struct open_how how = { .flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, .resolve = RESOLVE_CACHED };

	if (s->user || s->nwatch != 1)
		return UNSEEN;
	int same = leads_there(s);
	if (same <= 0)
		return same < 0 ? UNSEEN : HAS_IT; /* another directory, which may have one */
	fd_auto int fd = (int)syscall(SYS_openat2, s->fds[0], ".bailiff", &how, sizeof how);
	if (fd >= 0)
		return HAS_IT;
	return errno == ENOENT ? LACKS_IT : UNSEEN;
}

/* Moved or with other permissions: that changes ctime, but not mtime. */
static bool was_moved(const struct file_stamp *now, const struct file_stamp *then)
{
	return (now->changed_s != then->changed_s || now->changed_ns != then->changed_ns) &&
	       now->modified_s == then->modified_s && now->modified_ns == then->modified_ns;
}

/* Relative to the start of the request: the file was read at some time after it, and the reply may have waited. */
static bool is_racy(const struct policy_file *s, uint64_t began_real_us)
{
	if (check_inside(s) == LACKS_IT)
		return false;

	for (uint32_t i = 0; i < s->nwatch; i++) {
		const struct file_stamp *t = &s->stamp[i];
		uint64_t changed = (uint64_t)t->changed_s * 1000000 + t->changed_ns / 1000;

		if (changed + RACY_US > began_real_us)
			return true;
	}
	return false;
}

/* ---- repositories ---- */

static void check_identity(struct workspace_policy *l)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct policy_file *s = &l->source[i];

		if (s->user || !s->nwatch)
			continue;
		workspace_repos_check(&l->repos, s->stamp[0].dev, s->stamp[0].ino);
		break;
	}
}

static void update_repos(struct workspace_policy *l)
{
	workspace_repos_update(&l->repos, l->began_ns);
	if (l->repos.nested.len && !l->kept && l->owner->kept < KEPT_MAX) {
		l->kept = true;
		l->owner->kept++;
	}
}

/* Policy files in effect for a workspace below, or above it in another write root. */
static void add_files_in_effect(const struct workspace_policy *l, struct buf *out)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct policy_file *s = &l->source[i];

		if (!s->text || s->user)
			continue;
		mem_auto char *folder = mem_strndup(s->name, strlen(s->name) - strlen("/policy.json"));
		workspace_repos_add_text(out, folder);
	}
}

static void add_nested(const struct workspace_policy *l, const char *root, struct buf *out)
{
	const struct buf *found = &l->repos.nested;

	for (const char *s = found->data; s && s < found->data + found->len; s += strlen(s) + 1)
		if (path_within(root, s))
			workspace_repos_add_text(out, s);
}

/*
 * What is protected in a workspace stays protected in one below it. Otherwise a command could make a directory a
 * workspace of its own, with so many repositories that those that it wants to change are not among the first that are
 * found. The outermost comes first: commands can add workspaces further down.
 */
static void add_nested_of_outer(const struct workspace_policy *own, const char *root, struct buf *out)
{
	const struct workspace_policy *l;

	for (size_t n = 1; n <= strlen(root); n++)
		TAILQ_FOREACH (l, &own->owner->workspaces, link)
			if (l->uid == own->uid && strlen(l->workspace) == n && path_within(l->workspace, root))
				add_nested(l, root, out);
}

void workspace_policies_repos(struct workspace_policies *p, uint32_t uid, const char *workspace, struct buf *nested,
			      struct buf *git)
{
	const struct workspace_policy *l, *own = NULL;

	if (!p)
		return;
	TAILQ_FOREACH (l, &p->workspaces, link) {
		if (l->uid != uid)
			continue;
		if (path_within(workspace, l->workspace) || path_within(l->workspace, workspace))
			add_files_in_effect(l, nested);
		if (strcmp(workspace, l->workspace) == 0)
			own = l;
	}
	if (!own)
		return;
	add_nested_of_outer(own, workspace, nested);
	for (const char *s = own->repos.git.data; s && s < own->repos.git.data + own->repos.git.len; s += strlen(s) + 1)
		add_nested_of_outer(own, s + 1, nested);
	add_nested(own, "/", nested);
	buf_append(git, own->repos.git.data, own->repos.git.len);
}

const struct policy_rules *workspace_policies_rules(struct workspace_policies *p, uint32_t uid, const char *workspace)
{
	struct workspace_policy *l;

	TAILQ_FOREACH (l, &p->workspaces, link)
		if (l->uid == uid && strcmp(l->workspace, workspace) == 0)
			break;
	if (l && l->read_ns && l->generation != p->files->generation)
		rebuild_rules(l);
	return l && l->together ? &l->rules : &p->files->rules;
}

/* Says nothing about the file: such a reply is none, and the file is requested once more. */
static bool is_shortage(int error) { return error == ENOMEM || error == EMFILE || error == ENFILE; }

static void on_found(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds)
{
	struct workspace_policy *l = ctx;
	struct policy_file *s;

	if (l->below && (a->index == PEER_FILES_NESTED || a->index == PEER_FILES_GIT))
		workspace_repos_add(&l->repos, l->workspace, a);
	if (a->index >= l->count || nfds != a->nwatch + (a->error ? 0 : 1))
		return;
	if (is_shortage(a->error)) {
		l->shortage = true;
		return;
	}
	s = &l->source[a->index];
	close_watch(s);
	for (uint32_t i = 0; i < a->nwatch; i++) {
		s->fds[i] = fd_take(&fds[i]);
		s->stamp[i] = a->watch[i];
	}
	s->nwatch = a->nwatch;
	if (s->user && a->path[0] && strcmp(a->path, s->name) != 0) {
		free(s->name);
		s->name = mem_strdup(a->path);
	}
	l->found_racy |= is_racy(s, l->began_real_us) || !s->nwatch;
	l->racy |= l->found_racy;
	s->answered = true;
	handle_reply(l, s, a, a->error ? -1 : fds[nfds - 1]);
}

/* A directory without a reply may have a file that denies something. */
static const char *find_unanswered(const struct workspace_policy *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (!l->source[i].answered)
			return l->source[i].name;
	return NULL;
}

static void on_over(void *ctx, const struct err *e)
{
	struct workspace_policy *l = ctx;
	const char *missing = find_unanswered(l);

	l->look = NULL;
	l->again = l->shortage && !l->again && !e;
	l->shortage = false;
	if (l->again) {
		l->failed_ns = 0; /* starts that wait request the files again */
	} else if (e || missing) {
		if (e)
			snprintf(l->failure, sizeof l->failure, "%.150s", e->message);
		else
			snprintf(l->failure, sizeof l->failure, "no reply for %.120s", missing);
		l->failed_ns = clock_boot_ns();
	} else {
		l->failed_ns = 0;
		l->racy = l->found_racy;
		l->read_ns = l->began_ns;
		check_identity(l);
		if (l->below)
			update_repos(l);
		else if (!l->repos.searched_ns && l->workspace[0])
			l->read_ns = 0; /* another directory is there, which must be searched first */
	}
	rebuild_rules(l);
	engine_on_policy(l->owner->engine, l->uid, l->workspace);
}

static int request_files(struct workspace_policy *l, int peer_fd, struct err *e)
{
	static const struct peer_files_link_events on = { on_found, on_over };
	buf_auto struct buf request = BUF_INIT;

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->source[i].name;
		size_t n = l->source[i].user ? 0 : strlen(name) - strlen("/.bailiff/policy.json");

		buf_append(&request, name, n);
		buf_byte(&request, '\0');
	}
	if (peer_fd < 0)
		return err_set(
			e, ERR_UNAVAILABLE,
			"the policy of '%.200s' is read as its user, but no client of uid %u has connected since "
			"the daemon started",
			l->workspace, (unsigned)l->uid);
	l->began_ns = clock_boot_ns();
	l->began_real_us = clock_real_us();
	l->found_racy = false;
	for (size_t i = 0; i < l->count; i++)
		l->source[i].answered = false;
	l->below = l->workspace[0] && (!l->repos.searched_ns || l->began_ns - l->repos.searched_ns > AGAIN_NS ||
				       l->repos.git.len); /* a worktree can be removed and added again quickly */
	workspace_repos_begin(&l->repos);
	l->look = peer_files_link_new(l->owner->base, l->owner->spawner,
				      l->below ? PEER_FILES_BELOW : PEER_FILES_WORKSPACE, request.data, request.len,
				      peer_fd, &on, l);
	return l->look ? 0 : err_sys(e, errno, "request the policy of '%s'", l->workspace);
}

/* Compares the stamps of the cached descriptors; involves no other process. */
static bool has_changed(const struct workspace_policy *l)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct policy_file *s = &l->source[i];
		enum presence presence = check_inside(s);

		for (uint32_t k = 0; k < s->nwatch; k++) {
			struct file_stamp now;

			if (presence == HAS_IT || file_stamp_get(s->fds[k], &now) < 0)
				return true;
			if (presence == LACKS_IT ? was_moved(&now, &s->stamp[k])
						 : memcmp(&now, &s->stamp[k], sizeof now) != 0)
				return true;
		}
	}
	return false;
}

static bool is_fresh(const struct workspace_policy *l, uint64_t since_ns)
{
	if (!l->read_ns || l->stale)
		return false;
	if (workspace_repos_unproven(&l->repos))
		return since_ns && l->read_ns >= since_ns;
	return (since_ns && l->read_ns >= since_ns) || (!l->racy && !has_changed(l));
}

int workspace_policies_of(struct workspace_policies *p, const struct policy_key *at, const struct policy_rules **ret,
			  struct err *e)
{
	uint64_t now = clock_boot_ns();
	struct err later = ERR_INIT;
	struct workspace_policy *l;

	*ret = &p->files->rules;
	if (!at->workspace[0] && !p->peers)
		return 0;
	l = workspace_policy_get(p, at);
	if (!l->count)
		return 0;
	if (l->too_deep)
		return err_set(e, ERR_PERMISSION,
			       "nothing is started here: '%.200s' is nested in more than %u directories, each of which "
			       "may have a policy file",
			       l->workspace, PEER_FILES_FOLDERS_MAX - p->peers);
	if (l->failed_ns && now - l->failed_ns < FAILED_NS)
		return err_set(e, ERR_UNAVAILABLE, "the policy of '%.200s' cannot be read: %s", l->workspace,
			       l->failure);
	if (!is_fresh(l, at->since_ns))
		return l->look || request_files(l, at->peer_fd, e) == 0 ? 1 : -1;
	if (now - l->read_ns > AGAIN_NS && !l->look && at->peer_fd >= 0)
		(void)request_files(l, at->peer_fd, &later);
	if (l->generation != p->files->generation)
		rebuild_rules(l);
	if (l->problem[0])
		return err_set(e, ERR_PERMISSION, "nothing is started here while the policy cannot be read: %s",
			       l->problem);
	if (l->together)
		*ret = &l->rules;
	return 0;
}
