/*
 * `store`: checks, backs up and cleans the store.
 *
 * The daemon writes a backup into its store's own directory, because it may lack the privilege to write elsewhere. The
 * user who requested it moves it away with their own privileges.
 */

#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/find_program.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/home_candidates.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- moving a backup ---- */

static const char *const folders[] = { "store", "spool" };

/* O_NOFOLLOW: the daemon's user could replace a directory by a symbolic link, and files are given to the caller. */
static int open_folder(int parent, const char *name, struct err *e)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 ? fd : err_sys(e, errno, "open '%s' of the backup", name);
}

/* Calls `fn` for each file of a directory without subdirectories. */
static int visit_files(int fd, int (*fn)(int fd, const char *name))
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *entry;
	int r = 0;

	if (!d) {
		fd_close(&again);
		return -1;
	}
	while (r == 0 && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = fn(fd, entry->d_name);
	closedir(d);
	return r;
}

static int own_file(int fd, const char *name) { return fchownat(fd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW); }

static int remove_file(int fd, const char *name) { return unlinkat(fd, name, 0); }

/* The files belong to the daemon's user after a rename; give them to the caller. */
static int chown_moved(const char *dir, struct err *e)
{
	fd_auto int fd = open_folder(AT_FDCWD, dir, e);

	if (fd < 0)
		return -1;
	for (size_t i = 0; i < countof(folders); i++) {
		fd_auto int inner = open_folder(fd, folders[i], e);

		if (inner < 0)
			return -1;
		if (visit_files(inner, own_file) < 0 || fchown(inner, geteuid(), getegid()) < 0)
			return err_sys(e, errno, "own '%s/%s'", dir, folders[i]);
	}
	if (fchown(fd, geteuid(), getegid()) < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "own '%s'", dir);
	return 0;
}

/* Best effort: what remains is overwritten or reported by the next backup. */
static void remove_tree(const char *path)
{
	struct err ignored = ERR_INIT;
	fd_auto int fd = open_folder(AT_FDCWD, path, &ignored);

	for (size_t i = 0; fd >= 0 && i < countof(folders); i++) {
		fd_auto int inner = open_folder(fd, folders[i], &ignored);

		if (inner >= 0)
			visit_files(inner, remove_file);
		unlinkat(fd, folders[i], AT_REMOVEDIR);
	}
	(void)rmdir(path);
}

/* Only the two known folders are copied: the daemon's user could have put anything else there. */
static int copy_folders(const char *staged, int out, struct err *e)
{
	const struct file_copy_options plain = { 0 };
	fd_auto int in = open_folder(AT_FDCWD, staged, e);

	if (in < 0)
		return -1;
	for (size_t i = 0; i < countof(folders); i++) {
		fd_auto int from = open_folder(in, folders[i], e);

		if (from < 0)
			return -1;
		if (mkdirat(out, folders[i], 0700) < 0)
			return err_sys(e, errno, "make '%s'", folders[i]);
		fd_auto int to = open_folder(out, folders[i], e);
		if (to < 0 || file_copy_all(from, to, &plain, e) < 0)
			return -1;
	}
	return fsync(out) < 0 ? err_sys(e, errno, "sync the backup") : 0;
}

/* The backup's new name is durable only after a sync of the directory that contains it. */
static int sync_name(const char *dir, struct err *e)
{
	buf_auto struct buf above = BUF_INIT;

	buf_printf(&above, "%s/..", dir);
	fd_auto int fd = open_folder(AT_FDCWD, above.data, e);
	if (fd < 0)
		return -1;
	return fsync(fd) < 0 ? err_sys(e, errno, "sync the directory that contains '%s'", dir) : 0;
}

/* On another file system: copy to a temporary name first, so that `dir` exists only when it is complete. */
static int copy_backup(const char *staged, const char *dir, struct err *e)
{
	buf_auto struct buf tmp = BUF_INIT;
	int r;

	buf_printf(&tmp, "%s.partial", dir);
	remove_tree(tmp.data);
	if (mkdir(tmp.data, 0700) < 0)
		return err_sys(e, errno, "make '%s'", tmp.data);
	fd_auto int out = open_folder(AT_FDCWD, tmp.data, e);
	r = out < 0 ? -1 : copy_folders(staged, out, e);
	if (r == 0 && renameat2(AT_FDCWD, tmp.data, AT_FDCWD, dir, RENAME_NOREPLACE) < 0)
		r = err_sys(e, errno, "put the backup at '%s'", dir);
	if (r < 0) {
		remove_tree(tmp.data);
		return r;
	}
	r = sync_name(dir, e);
	if (r == 0)
		remove_tree(staged);
	return r;
}

/*
 * Moves the directory `staged` (with its subdirectories store and spool) to `dir`, which must not exist, and makes the
 * caller its owner. RENAME_NOREPLACE: never overwrites an existing backup.
 */
static int take_backup(const char *staged, const char *dir, struct err *e)
{
	if (renameat2(AT_FDCWD, staged, AT_FDCWD, dir, RENAME_NOREPLACE) == 0)
		return chown_moved(dir, e) < 0 ? -1 : sync_name(dir, e);
	if (errno == EXDEV)
		return copy_backup(staged, dir, e);
	return err_sys(e, errno, "put the backup at '%s'", dir);
}

/* ---- subverbs ---- */

/* The subverbs that are requests (verbs.def). */
static const struct store_verb {
	const char *name, *method;
	bool changes;
	const char *doing; /* shown on a terminal, because it may take a while; or NULL */
} store_verbs[] = {
	{ "verify", "verify_store", false, "verifying the store" },
	{ "rebuild", "rebuild_store", true, "rebuilding the read models" },
	{ "compact", "compact_store", true, "compacting the store" },
	{ "backup", "backup_store", true, "copying the store" },
	{ "stats", "get_store_stats", false, NULL },
	{ "prune", "prune_store", true, "removing old events and outputs" },
};

/* A check that failed ("ok": false) fails the verb, too. */
static int show_result(struct cli *c, struct jval result)
{
	int status = format_record(result, cli_as_json(c));

	return jval_get(result, "ok").type == JT_FALSE ? EXIT_FAILED : status;
}

/* The daemon wrote the backup into its store's directory: find that, and move the backup to the requested place. */
static int move_backup(struct cli *c, struct jval result)
{
	const char *dir = c->opts.args[1], *socket = remote_socket_path(c->remote);
	struct home places[HOME_CANDIDATES_MAX];
	size_t n = home_candidates(getuid(), places), i = 0;
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	struct err e = ERR_INIT;
	int r;

	while (i < n && strcmp(places[i].socket, socket) != 0)
		i++;
	if (i < n) {
		mem_auto char *staged = mem_printf("%s/backup", places[i].store);

		r = take_backup(staged, dir, &e);
	} else {
		r = err_set(&e, ERR_UNAVAILABLE, "the store of the daemon at %s was not found", socket);
	}
	if (r < 0)
		return cli_fail(c, EXIT_FAILED, &e, "store backup");
	jw_obj(&w);
	jw_kstr(&w, "dir", dir);
	jw_kuint(&w, "sequence", jval_uint(jval_get(result, "sequence"), 0));
	jw_obj_end(&w);
	return show_result(c, jval_of(text.data, text.len));
}

/* Run by the daemon's program, which knows the owners of the files; it refuses a home with a daemon, too. */
int store_restore(struct cli *c)
{
	static const char *const programs[] = { "bailiffd", "../sbin/bailiffd" };
	struct home places[HOME_CANDIDATES_MAX];
	mem_auto char *program = find_program(programs, countof(programs));
	char option[] = "--restore", home[] = "--home";
	const struct remote_options none = { 0 };
	struct err e = ERR_INIT;

	if (c->opts.nargs < 2)
		return cli_usage(c, "restore: from which folder?");
	if (cli_as_json(c))
		return cli_usage(c, "restore does not take --json: bailiffd does it, and prints text");
	(void)home_candidates(getuid(), places);
	/* bailiffd checks the lock of its home, too; this has the better message. */
	if (remote_open(&none, &c->remote, &e) == 0 && strcmp(remote_socket_path(c->remote), places[0].socket) == 0) {
		cli_error("store restore: the daemon at %s is running", remote_socket_path(c->remote));
		cli_hint("bailiff daemon stop ends it");
		return EXIT_FAILED;
	}
	char *argv[] = {
		program, option, (char *)c->opts.args[1], places[0].dir[0] ? home : NULL, places[0].dir, NULL
	};
	execvp(program, argv);
	cli_error("store restore: %s: %s", program, strerror(errno));
	return EXIT_FAILED;
}

/* Everything is checked before a daemon is needed. */
int store_request(struct cli *c)
{
	const char *age = opts_get(&c->opts, OPT_store_OLDER_THAN), *dir = c->opts.nargs > 1 ? c->opts.args[1] : NULL;
	request_auto struct request q = REQUEST_INIT(q);
	const struct store_verb *v = store_verbs;
	uint64_t ms;

	while (strcmp(v->name, c->opts.args[0]) != 0) /* the rows name no others */
		v++;
	if (strcmp(v->name, "backup") == 0 && !dir)
		return cli_usage(c, "backup: into which folder?");
	if (dir && access(dir, F_OK) == 0) {
		cli_error("store %s: '%s' exists; name a folder that does not exist", v->name, dir);
		return EXIT_FAILED;
	}
	if (strcmp(v->name, "prune") == 0 && !age)
		return cli_usage(c, "prune needs '--older-than'");
	if (age && text_duration_ms(age, &ms, &q.e) < 0)
		return cli_usage(c, "option '--older-than': %s", q.e.message);
	if (age)
		jw_kuint(&q.w, "olderThanMs", ms);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (v->doing && isatty(STDERR_FILENO))
		cli_error("%s ...", v->doing);
	if ((v->changes ? request_change : request_read)(c, &q, v->method) < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "store %s", v->name);
	return dir ? move_backup(c, q.result) : show_result(c, q.result);
}
