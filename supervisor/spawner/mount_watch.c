#include "supervisor/spawner/mount_watch.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/steps/step.h"
#include "sandbox/steps/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Removes the beginning of `text`, up to and with the next `end`, and returns it. */
static struct mount_part take_part(struct mount_part *text, char end)
{
	const char *found = memchr(text->at, end, text->len);
	struct mount_part r = { text->at, found ? (size_t)(found + 1 - text->at) : text->len };

	text->at += r.len;
	text->len -= r.len;
	return r;
}

static bool part_is(struct mount_part a, struct mount_part b)
{
	return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

static struct mount_line take_line(struct mount_part *text)
{
	struct mount_part left = take_part(text, '\n');
	struct mount_line r;

	for (int i = 0; i < MOUNT_WORDS; i++)
		r.word[i] = take_part(&left, ' ');
	r.id = strtoul(r.word[MOUNT_ID].at, NULL, 10);
	r.parent = strtoul(r.word[MOUNT_PARENT].at, NULL, 10);
	return r;
}

static void table_done(struct mount_table *t)
{
	buf_done(&t->text);
	free(t->line);
	*t = (struct mount_table){ 0 };
}

static int table_read(struct mount_table *t, int fd)
{
	ssize_t n;
	size_t room = 0;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	do {
		n = read(fd, buf_reserve(&t->text, 4096), 4096);
		buf_extend(&t->text, n > 0 ? (size_t)n : 0);
	} while (n > 0);
	for (struct mount_part text = { t->text.data, t->text.len }; text.len;) {
		if (t->count == room)
			t->line = mem_realloc(t->line, (room = room ? room * 2 : 64) * sizeof *t->line);
		t->line[t->count++] = take_line(&text);
	}
	return (int)n;
}

/* Blanks and some others are \ooo there. Returns the length. */
static size_t read_path(struct mount_part word, char ret[PATH_MAX])
{
	size_t n = 0;

	for (const char *p = word.at, *end = p + word.len; p < end && *p != ' ' && n < PATH_MAX - 1; n++) {
		const bool escaped = *p == '\\' && end - p > 4;
		ret[n] = escaped ? (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0')) : *p;
		p += escaped ? 4 : 1;
	}
	ret[n] = '\0';
	return n;
}

/* Of a path that is too long, the end says more. */
static void copy_end(const char *path, size_t len, char *ret, size_t size)
{
	snprintf(ret, size, "%s", len < size ? path : path + len - (size - 1));
}

/* Whether it is the same mount. The path of its root, and what its file system says, can change on the host. */
static bool is_same(const struct mount_line *a, const struct mount_line *b)
{
	static const int words[] = { MOUNT_ID, MOUNT_PARENT, MOUNT_DEVICE, MOUNT_OPTIONS };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (!part_is(a->word[words[i]], b->word[words[i]]))
			return false;
	}
	return true;
}

/* Whether it shows a file system that was created for the sandbox. */
static bool is_own(const struct mount_watch *w, const struct mount_line *l)
{
	char *end;
	const unsigned long major = strtoul(l->word[MOUNT_DEVICE].at, &end, 10);

	if (*end != ':')
		return true;
	const dev_t device = makedev((unsigned)major, (unsigned)strtoul(end + 1, NULL, 10));
	for (unsigned i = 0; i < w->steps->own_count; i++) {
		if (w->steps->own_devices[i] == device)
			return true;
	}
	return false;
}

/* Whether it is a file that replaces one of the host's for convenience, not to hide it. */
static bool is_convenience(const struct mount_watch *w, const struct mount_line *l)
{
	static const char *const roots[] = { "/" STEP_RESOLVER_COPY "//deleted ", "/" STEP_ACCOUNT_COPY "//deleted " };

	for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
		if (part_is(l->word[MOUNT_ROOT], (struct mount_part){ roots[i], strlen(roots[i]) }))
			return is_own(w, l);
	}
	return false;
}

static const struct mount_line *find_parent(const struct mount_watch *w, const struct mount_line *l)
{
	for (size_t i = 0; i < w->known.count; i++) {
		if (w->known.line[i].id == l->parent)
			return &w->known.line[i];
	}
	return NULL;
}

static bool plan_names(const struct plan_head *plan, const char *folder)
{
	for (uint32_t i = 0; i < plan->mount_count; i++) {
		if (plan_path_inside(plan_string(plan, plan_mount(plan, i)->path_off), folder))
			return true;
	}
	return false;
}

/*
 * Whether it is the host's own mount, below a tree that the sandbox shows read-only. Without it there is what the host
 * has there, as in the rest of the tree: as readable, as little writable. False also in doubt.
 */
static bool is_hosts(const struct mount_watch *w, const struct mount_line *l)
{
	const struct mount_line *parent = is_own(w, l) ? NULL : find_parent(w, l);
	char place[PATH_MAX];

	if (!parent || is_own(w, parent) || strncmp(parent->word[MOUNT_OPTIONS].at, "ro,", 3) != 0)
		return false;
	read_path(l->word[MOUNT_PLACE], place);
	return !plan_names(w->steps->plan, place);
}

static bool may_go(const struct mount_watch *w, const struct mount_line *l)
{
	return is_convenience(w, l) || is_hosts(w, l);
}

/* ---- places that a rename on the host can change ---- */

static bool has_child(const struct mount_watch *w, const struct mount_line *l)
{
	for (size_t i = 0; i < w->known.count; i++) {
		if (w->known.line[i].parent == l->id && !may_go(w, &w->known.line[i]))
			return true;
	}
	return false;
}

/* Whether its place must be watched: nothing is renamed in file systems of the sandbox and in /proc. */
static bool can_move(const struct mount_watch *w, const struct mount_line *l)
{
	static const char proc[] = "/proc/";
	const struct mount_line *parent = find_parent(w, l);

	/* The place of what is mounted on it, or below, tells the same. */
	return parent && !is_own(w, parent) && strncmp(l->word[MOUNT_PLACE].at, proc, sizeof proc - 1) != 0 &&
	       !may_go(w, l) && !has_child(w, l);
}

/* If a place cannot be opened, for instance because the command cannot search its folder, all mounts are compared. */
static void watch_places(struct mount_watch *w)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < w->known.count && !w->blind; i++) {
		const struct mount_line *line = &w->known.line[i];

		if (!can_move(w, line))
			continue;
		read_path(line->word[MOUNT_PLACE], path);
		const int fd = w->places == MOUNT_WATCH_PLACES ? -1 : open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		w->blind = fd < 0;
		if (fd >= 0)
			w->place[w->places++] = (struct mount_place){ .fd = fd, .path = mem_strdup(path) };
	}
}

/* The present path, as the kernel writes it. Returns the length, −1 = unknown. */
static ssize_t read_place(const struct mount_watch *w, int fd, char ret[PATH_MAX])
{
	char link[12];

	snprintf(link, sizeof link, "%d", fd);
	return readlinkat(w->links_fd, link, ret, PATH_MAX);
}

static int watch_roots(struct mount_watch *w)
{
	char path[PATH_MAX];

	for (unsigned i = 0; i < w->steps->host_roots; i++) {
		const int fd = w->steps->host_root_fd[i];
		const ssize_t n = read_place(w, fd, path);

		if (n < 0)
			return -1;
		w->root[i] = (struct mount_place){ .fd = fd, .path = mem_strndup(path, (size_t)n) };
	}
	return 0;
}

static bool has_moved(const struct mount_watch *w, const struct mount_place *p)
{
	char path[PATH_MAX];
	const ssize_t n = read_place(w, p->fd, path);

	return n < 0 || (size_t)n != strlen(p->path) || memcmp(path, p->path, (size_t)n) != 0;
}

/* ---- hidden paths that are missing ---- */

/* Whether only the host can create the path: the nearest folder on the way that exists is not the sandbox's own. */
static bool is_left_to_host(const struct mount_watch *w, const char *path)
{
	char folder[PATH_MAX];
	size_t n = strlen(path);
	fd_auto int fd = -1;

	while (fd < 0 && n > 1 && n < sizeof folder) {
		while (n > 1 && path[n - 1] != '/')
			n--;
		n -= n > 1;
		memcpy(folder, path, n);
		folder[n] = '\0';
		fd = open(folder, O_PATH | O_CLOEXEC);
	}
	return fd >= 0 && !tree_is_own(w->steps, fd);
}

static bool is_shown_again(const struct plan_head *plan, uint32_t i)
{
	const char *path = plan_string(plan, plan_mount(plan, i)->path_off);

	for (uint32_t j = i + 1; j < plan->mount_count; j++) {
		const struct plan_mount *m = plan_mount(plan, j);

		if (m->kind != PLAN_MOUNT_HIDE && strcmp(plan_string(plan, m->path_off), path) == 0)
			return true;
	}
	return false;
}

/*
 * Nothing covers a hidden path that is missing in a tree of the host. In a write root there is a placeholder. False: a
 * path has appeared since the sandbox was built.
 */
static bool watch_absent(struct mount_watch *w)
{
	const struct plan_head *plan = w->steps->plan;

	for (uint32_t i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = plan_mount(plan, i);
		const char *path = plan_string(plan, m->path_off);
		const int below = plan_mount_below(plan, i);

		if (m->kind != PLAN_MOUNT_HIDE || is_shown_again(plan, i) ||
		    (below >= 0 && plan_mount(plan, (uint32_t)below)->kind == PLAN_MOUNT_WRITE))
			continue;
		fd_auto int fd = open(path, O_PATH | O_CLOEXEC);
		if (fd >= 0 && !tree_is_own(w->steps, fd))
			return false;
		if (fd < 0 && is_left_to_host(w, path))
			w->absent[w->absents++] = (uint16_t)i;
	}
	return true;
}

int mount_watch_init(struct mount_watch *w, const struct step_context *steps)
{
	*w = (struct mount_watch){ .steps = steps, .fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) };
	w->links_fd = steps->self_fds >= 0 ? fcntl(steps->self_fds, F_DUPFD_CLOEXEC, 0)
					   : open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0 || w->links_fd < 0 || table_read(&w->known, w->fd) < 0 || watch_roots(w) < 0)
		return -1;
	watch_places(w);
	/* What was lost after the open is not among the known ones. */
	struct pollfd p = { .fd = w->fd, .events = POLLPRI };
	if (watch_absent(w) && poll(&p, 1, 0) == 0)
		return 0;
	errno = ESTALE;
	return -1;
}

void mount_watch_path(const struct mount_watch *w, uint16_t mount, char *ret, size_t size)
{
	const char *path = plan_string(w->steps->plan, plan_mount(w->steps->plan, mount)->path_off);

	copy_end(path, strlen(path), ret, size);
}

bool mount_watch_is_in_place(struct mount_watch *w, char *ret_path, size_t size)
{
	for (unsigned i = 0; i < w->steps->host_roots; i++) {
		if (has_moved(w, &w->root[i])) {
			mount_watch_path(w, w->steps->host_root[i], ret_path, size);
			return false;
		}
	}
	if (w->blind)
		return mount_watch_is_intact(w, ret_path, size);
	for (size_t i = 0; i < w->places; i++) {
		if (has_moved(w, &w->place[i])) {
			copy_end(w->place[i].path, strlen(w->place[i].path), ret_path, size);
			return false;
		}
	}
	return true;
}

int mount_watch_find_created(const struct mount_watch *w, volatile uint16_t *ret_mount)
{
	const struct plan_head *plan = w->steps->plan;

	for (size_t i = 0; i < w->absents; i++) {
		*ret_mount = w->absent[i];
		fd_auto int fd = open(plan_string(plan, plan_mount(plan, w->absent[i])->path_off), O_PATH | O_CLOEXEC);

		if (fd >= 0)
			return 1;
		if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
			return -1;
	}
	return 0;
}

/* ---- lost mounts ---- */

bool mount_watch_is_intact(struct mount_watch *w, char *ret_lost, size_t size)
{
	struct mount_table now = { 0 };
	const struct mount_line *lost = NULL;
	char path[PATH_MAX] = "";
	bool intact = table_read(&now, w->fd) == 0 && now.count > 0;
	size_t next = 0; /* those that are kept have the same order */

	for (size_t i = 0; intact && !lost && i < w->known.count; i++) {
		const struct mount_line *l = &w->known.line[i];
		const bool same = next < now.count && is_same(l, &now.line[next]);
		const bool kept = same && part_is(l->word[MOUNT_PLACE], now.line[next].word[MOUNT_PLACE]);

		next += same;
		if (!kept && !may_go(w, l))
			lost = l;
	}
	if (intact && !lost && next < now.count)
		lost = &now.line[next];
	if (lost)
		copy_end(path, read_path(lost->word[MOUNT_PLACE], path), ret_lost, size);
	table_done(&w->known);
	w->known = now;
	return intact && !lost;
}
