/*
 * `setup`: adds bailiff to an agent's configuration. The new text of every file is computed and checked before the
 * first one is written, so that a file that cannot be changed leaves all of them as they were. setup_clients.def and
 * setup_only.def list the clients.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX_BYTES (16u << 20)

enum { USER, PROJECT };

static const struct client_row {
	const char *name, *title;
	int where;
	const char *user, *project;
	enum setup_form form;
	const char *then;
} clients[] = {
#define CLIENT(name, title, where, user, project, form, then) { name, title, where, user, project, SETUP_##form, then },
#include "supervisor/cli/setup_clients.def"
#undef CLIENT
};

static const struct only_row {
	const char *client, *user, *project;
	enum setup_form form;
	struct setup_exclusion exclusion;
} onlys[] = {
#define ONLY(client, user, project, form, object, array, ...) \
	{ client, user, project, SETUP_##form, { object, array, (const char *const[]){ __VA_ARGS__, NULL } } },
#include "supervisor/cli/setup_only.def"
#undef ONLY
};

static const struct only_row *only_find(const char *client)
{
	for (size_t i = 0; i < countof(onlys); i++)
		if (strcmp(onlys[i].client, client) == 0)
			return &onlys[i];
	return NULL;
}

/* ---- paths ---- */

/* An empty variable counts as unset. */
static const char *find_variable(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] ? v : NULL;
}

/* A user's file: below $HOME, or below the directory of a variable whose default is below $HOME. */
static char *user_path(const char *file)
{
	static const struct {
		const char *prefix, *name, *otherwise;
	} variables[] = {
		{ "$CODEX_HOME/", "CODEX_HOME", ".codex" },
		{ "$XDG_CONFIG_HOME/", "XDG_CONFIG_HOME", ".config" },
	};
	const char *home = find_variable("HOME");

	for (size_t i = 0; i < countof(variables); i++) {
		size_t n = strlen(variables[i].prefix);
		if (strncmp(file, variables[i].prefix, n) != 0)
			continue;
		if (find_variable(variables[i].name))
			return mem_printf("%s/%s", find_variable(variables[i].name), file + n);
		return home ? mem_printf("%s/%s/%s", home, variables[i].otherwise, file + n) : NULL;
	}
	return home ? mem_printf("%s/%s", home, file) : NULL;
}

/*
 * A project may come from someone else, and a symbolic link in it may point to one of the user's own files to have it
 * read or changed. Links in the user's own configuration are followed.
 */
static int check_links(const char *project, const char *file, struct err *e)
{
	mem_auto char *path = mem_printf("%s/%s", project, file);
	char *end = path + strlen(project);
	char real[PATH_MAX], root[PATH_MAX];
	struct stat st;

	if (!realpath(project, root))
		return err_sys(e, errno, "find '%s'", project);
	while (end) {
		end = strchr(end + 1, '/');
		if (end)
			*end = '\0';
		if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode) && (!realpath(path, real) || !path_within(root, real)))
			return err_set(e, ERR_INVALID,
				       "'%s' is a link that leads out of the project: remove it, or use --user", path);
		if (end)
			*end = '/';
	}
	return 0;
}

/* NULL after printing why. The project's file is used only if no link leads out of the project. */
static char *project_path(const char *file)
{
	char here[PATH_MAX];
	struct err e = ERR_INIT;

	if (!getcwd(here, sizeof(here))) {
		cli_error("setup: the working directory: %s", strerror(errno));
		return NULL;
	}
	if (check_links(here, file, &e) < 0) {
		cli_error("setup: %s", e.message);
		return NULL;
	}
	return mem_printf("%s/%s", here, file);
}

/* 0, or the exit status. */
static int check_scope(struct cli *c, const struct client_row *r)
{
	bool project = opts_has(&c->opts, OPT_setup_PROJECT);

	if (opts_has(&c->opts, OPT_setup_USER) && project)
		return cli_usage(c, "--user and --project exclude each other");
	if (project && !r->project) {
		cli_error("setup: %s has this setting per user, not per project", r->title);
		cli_hint("leave out --project");
		return EXIT_FAILED;
	}
	return 0;
}

/* The client's file for this user or for the project. */
static char *file_of(struct cli *c, const struct client_row *r, const char *user_file, const char *project_file)
{
	bool user = opts_has(&c->opts, OPT_setup_USER), project = opts_has(&c->opts, OPT_setup_PROJECT);

	if (project || (!user && r->where == PROJECT))
		return project_path(project_file);
	char *path = user_path(user_file);
	if (!path)
		cli_error("setup: HOME is not set");
	return path;
}

/* ---- entry ---- */

/* The absolute path: an agent may start bailiff with another PATH. */
static char *find_own_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return mem_strdup(path);
}

/* *ret is NULL if there is no such file. */
static int read_file(const char *path, char **ret, struct err *e)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct buf buf_auto text = BUF_INIT;
	char piece[65536];
	ssize_t n;

	*ret = NULL;
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, errno, "open '%s'", path);
	while ((n = read(fd, piece, sizeof(piece))) > 0) {
		buf_append(&text, piece, (size_t)n);
		if (text.len > FILE_MAX_BYTES)
			return err_set(e, ERR_INVALID, "'%s' is larger than 16 MiB", path);
	}
	if (n < 0)
		return err_sys(e, errno, "read '%s'", path);
	if (memchr(text.data ? text.data : "", '\0', text.len))
		return err_set(e, ERR_INVALID, "'%s' is not text", path);
	*ret = mem_strdup(buf_cstr(&text));
	return 0;
}

static int list_clients(void)
{
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < countof(clients); i++)
		buf_printf(&out, "%-12s %s\n", clients[i].name, clients[i].title);
	return format_out(&out);
}

static const struct client_row *client_find(struct cli *c)
{
	for (size_t i = 0; i < countof(clients); i++)
		if (strcmp(clients[i].name, c->opts.args[0]) == 0)
			return &clients[i];
	cli_error("setup: unsupported client '%s'", c->opts.args[0]);
	cli_hint("bailiff setup lists the supported ones; in any other, configure the command bailiff with the "
		 "argument mcp");
	return NULL;
}

/* A user who made a file read-only does not want it changed, and replacing it would do just that. */
static bool is_read_only(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !(st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH));
}

/* ---- files to change ---- */

struct file {
	char *path;
	char *present; /* NULL: does not exist */
	struct buf text;
};

static void file_done(struct file *f)
{
	free(f->path);
	free(f->present);
	buf_done(&f->text);
}
#define file_auto __attribute__((cleanup(file_done)))

/* The change: either an entry or an exclusion. */
struct addition {
	enum setup_form form;
	const struct setup_entry *entry;
	const struct setup_exclusion *exclusion;
};

/* The text with the addition; `present` is NULL if there is no file. */
static int merge_settings(const struct addition *a, const char *present, struct buf *ret, struct err *e)
{
	return a->entry ? setup_merge(a->form, present, a->entry, ret, e)
			: setup_exclude_json(a->form, present, a->exclusion, ret, e);
}

/* A file that cannot be parsed is left unchanged; the entry is printed instead. */
static int reject_file(const char *path, const struct addition *a, const struct err *why)
{
	buf_auto struct buf alone = BUF_INIT;

	cli_error("setup: %s: %s", path, why->message);
	cli_hint("nothing was changed; %s, or put this into it by hand:",
		 why->code == ERR_NOT_ALLOWED ? "make it writable (chmod u+w)" : "fix the file");
	if (merge_settings(a, NULL, &alone, NULL) == 0)
		fprintf(stderr, "%s", buf_cstr(&alone));
	return EXIT_FAILED;
}

/* 0, or the exit status. Does not write anything. */
static int file_prepare(struct file *f, const struct addition *additions, size_t n, bool write)
{
	struct err e = ERR_INIT;

	if (read_file(f->path, &f->present, &e) < 0) {
		cli_error("setup: %s", e.message);
		return EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++) {
		buf_auto struct buf next = BUF_INIT;

		if (merge_settings(&additions[i], i ? buf_cstr(&f->text) : f->present, &next, &e) < 0)
			return reject_file(f->path, &additions[i], &e);
		buf_reset(&f->text);
		buf_append(&f->text, buf_cstr(&next), next.len);
	}
	if (write && f->present && is_read_only(f->path) && strcmp(f->present, buf_cstr(&f->text)) != 0) {
		err_set(&e, ERR_NOT_ALLOWED, "it is read-only");
		return reject_file(f->path, &additions[0], &e);
	}
	return 0;
}

/* Running setup twice must not touch the file. */
static int file_write(const struct file *f, struct buf *report)
{
	struct err e = ERR_INIT;
	bool kept = false;

	if (f->present && strcmp(f->present, buf_cstr(&f->text)) == 0) {
		buf_printf(report, "%s: bailiff is set up there already\n", f->path);
	} else if (setup_write(f->path, &f->text, &kept, &e) < 0) {
		cli_error("setup: %s", e.message);
		return EXIT_FAILED;
	} else {
		buf_printf(report, "%s: written\n", f->path);
		if (kept)
			buf_printf(report, "%s.before-bailiff: what was there before\n", f->path);
	}
	return 0;
}

static int file_print(const struct file *f)
{
	fprintf(stderr, "# %s would be, with bailiff in it (--write writes it):\n", f->path);
	return format_out(&f->text);
}

/* ---- verb ---- */

/* 0 if the client has a row, or if its own tools run through bailiff anyway (Codex). Otherwise the exit status. */
static int check_only(const struct client_row *r)
{
	if (only_find(r->name) || r->form == SETUP_CODEX_ENVIRONMENTS)
		return 0;
	cli_error("setup: --only: %s has no file that disables its own shell and file tools", r->title);
	cli_hint("disable them in its settings (docs/setup/%s.md), and leave out --only", r->name);
	return EXIT_FAILED;
}

/*
 * One file with bailiff as a server and, with --only, one that disables the client's own tools; they may be the same
 * file.
 */
static int set_up_client(struct cli *c, const struct client_row *r)
{
	const bool write = opts_has(&c->opts, OPT_setup_WRITE);
	const struct only_row *only = opts_has(&c->opts, OPT_setup_ONLY) ? only_find(r->name) : NULL;
	mem_auto char *program = find_own_path();
	const struct setup_entry entry = { .program = program, .home = find_variable("BAILIFF_HOME") };
	const struct addition additions[] = {
		{ .form = r->form, .entry = &entry },
		{ .form = only ? only->form : r->form, .exclusion = only ? &only->exclusion : NULL },
	};
	file_auto struct file first = { .path = file_of(c, r, r->user, r->project) };
	file_auto struct file second = { .path = only ? file_of(c, r, only->user, only->project) : NULL };
	buf_auto struct buf report = BUF_INIT;
	const bool same = only && first.path && second.path && strcmp(first.path, second.path) == 0;
	int status;

	if (!first.path || !program || (only && !second.path))
		return EXIT_FAILED;
	/* Prepare both files before writing either. */
	status = file_prepare(&first, additions, same ? 2 : 1, write);
	if (!status && only && !same)
		status = file_prepare(&second, &additions[1], 1, write);
	if (status)
		return status;
	if (!write) {
		status = file_print(&first);
		return status || same || !only ? status : file_print(&second);
	}
	status = file_write(&first, &report);
	if (!status && only && !same)
		status = file_write(&second, &report);
	if (!status)
		buf_printf(&report, "\n%s\n", r->then);
	return format_out(&report) || status;
}

int cmd_setup(struct cli *c)
{
	if (opts_has(&c->opts, OPT_setup_PRINT) && opts_has(&c->opts, OPT_setup_WRITE))
		return cli_usage(c, "--print and --write exclude each other");
	if (c->opts.nargs == 0 && c->opts.ngiven)
		return cli_usage(c, "--%s needs a client; bailiff setup lists them",
				 option_rows[c->opts.given[0].option].name);
	if (c->opts.nargs == 0)
		return list_clients();
	if (c->opts.nargs > 1)
		return cli_usage(c, "takes one client; unexpected argument '%s'", c->opts.args[1]);
	const struct client_row *r = client_find(c);
	int status = r ? check_scope(c, r) : EXIT_USAGE;
	if (!status && opts_has(&c->opts, OPT_setup_ONLY))
		status = check_only(r);
	return status ? status : set_up_client(c, r);
}
