#include "sandbox/tree_limit.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEAF_NAME_MAX (PLAN_KEY_MAX + 16)

/* What is different between the controllers and their two versions. */
static const struct {
	const char *name;
	const char *max_v1, *max_v2;       /* the file that takes the limit */
	const char *swap_v1, *swap_v2;     /* memory only: no way around it through swap */
	const char *events_v1, *events_v2; /* the file that counts */
	const char *count;                 /* the line in it */
} rows[TREE_LIMITS] = {
	[TREE_LIMIT_MEMORY] = { "memory", "memory.limit_in_bytes", "memory.max", "memory.memsw.limit_in_bytes", "memory.swap.max",
				"memory.oom_control", "memory.events", "oom_kill " },
	[TREE_LIMIT_PIDS] = { "pids", "pids.max", "pids.max", NULL, NULL, "pids.events", "pids.events", "max " },
};

const char *tree_limit_name(enum tree_limit l)
{
	return rows[l].name;
}

void tree_limit_fds_init(struct tree_limit_fds *f)
{
	for (int i = 0; i < TREE_LIMITS; i++)
		f->attach[i] = f->events[i] = -1;
}

void tree_limit_fds_close(struct tree_limit_fds *f)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		fd_close(&f->attach[i]);
		fd_close(&f->events[i]);
	}
}

/* Our own cgroup in the hierarchy of this controller: "4:memory:/a/b" → "/a/b"; with v2 "0::/a/b". */
static bool own_path(const char *controller, bool v2, char ret[PATH_MAX])
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[PATH_MAX];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = 0;
		path[strcspn(path, "\n")] = 0;
		names++;
		if (v2) {
			found = !*names;
		} else {
			for (char *save, *n = strtok_r(names, ",", &save); n && !found; n = strtok_r(NULL, ",", &save))
				found = strcmp(n, controller) == 0;
		}
		if (found)
			snprintf(ret, PATH_MAX, "%s", strcmp(path, "/") == 0 ? "" : path);
	}
	if (f)
		fclose(f);
	return found;
}

static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = list; (p = strstr(p, word)); p += n)
		if ((p == list || p[-1] == ',' || p[-1] == ' ') && (p[n] == ',' || p[n] == ' ' || p[n] == '\n' || !p[n]))
			return true;
	return false;
}

/* The mount point of the hierarchy, from mountinfo: "… /root /point … - cgroup source rw,memory". */
static bool mount_point(const char *controller, bool v2, char ret[PATH_MAX])
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[2 * PATH_MAX];
	bool found = false;

	while (f && !found && fgets(line, sizeof line, f)) {
		const char *tail = strstr(line, v2 ? " - cgroup2 " : " - cgroup ");
		if (!tail || (!v2 && !has_word(strrchr(tail, ' ') + 1, controller)))
			continue;
		char point[PATH_MAX];
		if (sscanf(line, "%*s %*s %*s %*s %4095s", point) == 1) {
			snprintf(ret, PATH_MAX, "%s", point);
			found = true;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static int put(int dir, const char *file, const char *text)
{
	fd_auto int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

/* Is the controller on the v2 tree, and can it be handed down to our folder? */
static bool v2_has(const char *controller, const char *own)
{
	char path[PATH_MAX], text[1024], word[32];

	if (snprintf(path, sizeof path, "%s/cgroup.controllers", own) >= (int)sizeof path)
		return false;
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return false;
	text[n] = 0;
	if (!has_word(text, controller))
		return false;
	fd_auto int dir = open(own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(word, sizeof word, "+%s", controller);
	return dir >= 0 && put(dir, "cgroup.subtree_control", word) == 0;
}

/* Folders of an earlier guard of this home: their processes died with it. */
static void remove_leaves(int folder)
{
	DIR *d = fdopendir(dup(folder));
	struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
			unlinkat(folder, entry->d_name, AT_REMOVEDIR);
	if (d)
		closedir(d);
}

static bool folder_path(enum tree_limit l, bool v2, const char *tag, char ret[PATH_MAX])
{
	char point[PATH_MAX], own[PATH_MAX], base[PATH_MAX];

	if (!own_path(rows[l].name, v2, own) || !mount_point(rows[l].name, v2, point) ||
	    snprintf(base, sizeof base, "%s%s", point, own) >= (int)sizeof base)
		return false;
	if (v2 && !v2_has(rows[l].name, base))
		return false;
	return snprintf(ret, PATH_MAX, "%s/%s", base, tag) < PATH_MAX;
}

void tree_limiter_open(struct tree_limiter *t, const char *tag)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		char *path = t->tag_path[i];
		t->of[i].folder = -1;
		t->of[i].v2 = folder_path(i, true, tag, path);
		if (!t->of[i].v2 && !folder_path(i, false, tag, path)) {
			snprintf(t->of[i].why, sizeof t->of[i].why, "no cgroup hierarchy gives us the %s controller", rows[i].name);
			continue;
		}
		if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
		    (t->of[i].folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
			snprintf(t->of[i].why, sizeof t->of[i].why, "its cgroup cannot be made: %s", strerror(errno));
			continue;
		}
		if (t->of[i].v2) {
			char word[32];
			snprintf(word, sizeof word, "+%s", rows[i].name);
			if (put(t->of[i].folder, "cgroup.subtree_control", word) < 0) {
				snprintf(t->of[i].why, sizeof t->of[i].why, "it cannot be handed down: %s", strerror(errno));
				fd_close(&t->of[i].folder);
			}
		} else {
			remove_leaves(t->of[i].folder);
		}
	}
}

void tree_limiter_close(struct tree_limiter *t)
{
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (t->of[i].folder >= 0 && !t->of[i].v2) {
			remove_leaves(t->of[i].folder);
			rmdir(t->tag_path[i]);
		}
		fd_close(&t->of[i].folder);
	}
}

static void leaf_name(const struct plan_key *key, char ret[LEAF_NAME_MAX])
{
	snprintf(ret, LEAF_NAME_MAX, "%.*s-%u", PLAN_KEY_MAX - 1, key->id, key->attempt);
}

static int leaf_limit(struct tree_limiter *t, enum tree_limit l, const char *name, uint64_t value, struct tree_limit_fds *f, struct err *e)
{
	bool v2 = t->of[l].v2;
	char text[24];

	if (mkdirat(t->of[l].folder, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, errno, "make a %s cgroup", rows[l].name);
	fd_auto int leaf = openat(t->of[l].folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	if (leaf < 0 || put(leaf, v2 ? rows[l].max_v2 : rows[l].max_v1, text) < 0)
		return err_sys(e, errno, "set the %s limit", rows[l].name);
	if (rows[l].swap_v1 && put(leaf, v2 ? rows[l].swap_v2 : rows[l].swap_v1, v2 ? "0" : text) < 0 && errno != ENOENT)
		return err_sys(e, errno, "set the swap limit");
	f->events[l] = openat(leaf, v2 ? rows[l].events_v2 : rows[l].events_v1, O_RDONLY | O_CLOEXEC);
	f->attach[l] = v2 ? -1 : openat(leaf, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (f->events[l] < 0 || (!v2 && f->attach[l] < 0))
		return err_sys(e, errno, "open the %s cgroup", rows[l].name);
	return 0;
}

int tree_limiter_make(struct tree_limiter *t, const struct plan_key *key, const struct plan_key *leaf, const struct plan_head *plan,
		      struct tree_limit_fds *ret, struct err *e)
{
	const uint64_t value[TREE_LIMITS] = { [TREE_LIMIT_MEMORY] = plan->memory_bytes, [TREE_LIMIT_PIDS] = plan_tasks(plan) };
	char name[LEAF_NAME_MAX];

	tree_limit_fds_init(ret);
	for (int i = 0; i < TREE_LIMITS; i++) {
		if (!value[i])
			continue;
		/*
		 * A profile's own default is left out where it cannot be, and on v1, where joining a cgroup waits for every
		 * processor (milliseconds); what somebody asked for makes the layer required.
		 */
		if ((t->of[i].folder < 0 || !t->of[i].v2) && !(plan->require & PLAN_LAYER_CGROUP))
			continue;
		if (t->of[i].folder < 0) {
			err_set(e, ERR_UNAVAILABLE, "a %s limit cannot be enforced here: %s", rows[i].name, t->of[i].why);
			snprintf(e->field, sizeof e->field, "%s", rows[i].name);
		} else {
			leaf_name(t->of[i].v2 ? leaf : key, name);
			if (leaf_limit(t, i, name, value[i], ret, e) == 0)
				continue;
		}
		tree_limit_fds_close(ret);
		tree_limiter_remove(t, key);
		return -1;
	}
	return 0;
}

void tree_limiter_remove(struct tree_limiter *t, const struct plan_key *key)
{
	char name[LEAF_NAME_MAX];

	leaf_name(key, name);
	for (int i = 0; i < TREE_LIMITS; i++)
		if (t->of[i].folder >= 0 && !t->of[i].v2)
			unlinkat(t->of[i].folder, name, AT_REMOVEDIR);
}

uint64_t tree_limit_count(const struct tree_limit_fds *f, enum tree_limit l)
{
	char text[512];
	ssize_t n = f->events[l] < 0 ? -1 : pread(f->events[l], text, sizeof text - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = 0;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, rows[l].count, strlen(rows[l].count)) == 0)
			return strtoull(line + strlen(rows[l].count), NULL, 10);
		if (!*line)
			break;
	}
	return 0;
}
