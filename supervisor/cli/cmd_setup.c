#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/setup.h"
#include "supervisor/cli/show.h"

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

/* ---- which file ---- */

static const char *variable(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] ? v : NULL;
}

/* A user's file: below $HOME, or below a variable's folder, whose default is below $HOME. */
static char *user_path(const struct client_row *r)
{
	static const struct { const char *prefix, *name, *otherwise; } variables[] = {
		{ "$CODEX_HOME/", "CODEX_HOME", ".codex" }, { "$XDG_CONFIG_HOME/", "XDG_CONFIG_HOME", ".config" },
	};
	const char *home = variable("HOME");

	for (size_t i = 0; i < countof(variables); i++) {
		size_t n = strlen(variables[i].prefix);
		if (strncmp(r->user, variables[i].prefix, n) != 0)
			continue;
		if (variable(variables[i].name))
			return mem_printf("%s/%s", variable(variables[i].name), r->user + n);
		return home ? mem_printf("%s/%s/%s", home, variables[i].otherwise, r->user + n) : NULL;
	}
	return home ? mem_printf("%s/%s", home, r->user) : NULL;
}

/*
 * A project may be somebody else's, and a link in it may have been put there to have one of the user's own files read or changed. A
 * user's links are his own and are followed.
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
			return err_set(e, ERR_INVALID, "'%s' is a link that leads out of the project: remove it, or use --user", path);
		if (end)
			*end = '/';
	}
	return 0;
}

static char *project_path(const struct client_row *r)
{
	char here[PATH_MAX];
	struct err e = ERR_INIT;

	if (!getcwd(here, sizeof(here))) {
		cli_error("setup: the working directory: %s", strerror(errno));
		return NULL;
	}
	if (check_links(here, r->project, &e) < 0) {
		cli_error("setup: %s", e.message);
		return NULL;
	}
	return mem_printf("%s/%s", here, r->project);
}

/* 0, or the exit status. */
static int check_scope(struct cli *c, const struct client_row *r)
{
	bool project = opts_has(&c->opts, OPT_setup_PROJECT);

	if (opts_has(&c->opts, OPT_setup_USER) && project)
		return cli_usage(c, "--user and --project exclude each other");
	if (project && !r->project) {
		cli_error("setup: %s keeps this for a user, not for a project", r->title);
		cli_hint("leave out --project");
		return EXIT_FAILED;
	}
	return 0;
}

static char *file_of(struct cli *c, const struct client_row *r)
{
	bool user = opts_has(&c->opts, OPT_setup_USER), project = opts_has(&c->opts, OPT_setup_PROJECT);

	if (project || (!user && r->where == PROJECT))
		return project_path(r);
	char *path = user_path(r);
	if (!path)
		cli_error("setup: HOME is not set");
	return path;
}

/* ---- the entry ---- */

static char *own_path(void)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	return mem_strdup(path);
}

/* NULL in *ret: there is no such file. */
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
	return show_out(&out);
}

static const struct client_row *client_find(struct cli *c)
{
	for (size_t i = 0; i < countof(clients); i++)
		if (strcmp(clients[i].name, c->opts.args[0]) == 0)
			return &clients[i];
	cli_error("setup: '%s' is not a client it knows", c->opts.args[0]);
	cli_hint("bailiff setup lists them; for any other, the command is bailiff and its argument mcp");
	return NULL;
}

/* A file that cannot be read as what it should be stays as it is; the entry alone can still be shown. */
static int refuse(const struct client_row *r, const char *path, const struct setup_entry *entry, const struct err *why)
{
	buf_auto struct buf alone = BUF_INIT;

	cli_error("setup: %s: %s", path, why->message);
	cli_hint("nothing was changed; %s, or put this into it by hand:", why->code == ERR_NOT_ALLOWED ? "make it writable (chmod u+w)" : "mend the file");
	if (setup_merge(r->form, NULL, entry, &alone, NULL) == 0)
		fprintf(stderr, "%s", buf_cstr(&alone));
	return EXIT_FAILED;
}

/* Whoever made a file read-only does not want it changed by the way, and a new one in its place would be just that. */
static bool is_read_only(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !(st.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH));
}

static int write_file(const struct client_row *r, const char *path, const char *present, const struct buf *text)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	bool kept = false;

	if (present && strcmp(present, buf_cstr(text)) == 0) {
		buf_printf(&out, "%s: bailiff is set up there already\n", path);
	} else if (setup_write(path, text, &kept, &e) < 0) {
		cli_error("setup: %s", e.message);
		return EXIT_FAILED;
	} else {
		buf_printf(&out, "%s: written\n", path);
		if (kept)
			buf_printf(&out, "%s.before-bailiff: what was there before\n", path);
	}
	buf_printf(&out, "\n%s\n", r->then);
	return show_out(&out);
}

int cmd_setup(struct cli *c)
{
	const char *home = variable("BAILIFF_HOME");
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	char *present_or_null = NULL;

	if (opts_has(&c->opts, OPT_setup_PRINT) && opts_has(&c->opts, OPT_setup_WRITE))
		return cli_usage(c, "--print and --write exclude each other");
	if (c->opts.nargs == 0)
		return list_clients();
	if (c->opts.nargs > 1)
		return cli_usage(c, "takes one client: '%s' is too much", c->opts.args[1]);
	const struct client_row *r = client_find(c);
	int status = r ? check_scope(c, r) : EXIT_USAGE;
	if (status)
		return status;
	mem_auto char *path = file_of(c, r), *program = own_path();
	if (!path || !program)
		return EXIT_FAILED;
	const struct setup_entry entry = { .program = program, .home = home };
	if (read_file(path, &present_or_null, &e) < 0) {
		cli_error("setup: %s", e.message);
		return EXIT_FAILED;
	}
	mem_auto char *present = present_or_null;
	if (setup_merge(r->form, present, &entry, &text, &e) < 0)
		return refuse(r, path, &entry, &e);
	if (opts_has(&c->opts, OPT_setup_WRITE) && present && is_read_only(path) && strcmp(present, buf_cstr(&text)) != 0) {
		err_set(&e, ERR_NOT_ALLOWED, "it is read-only");
		return refuse(r, path, &entry, &e);
	}
	if (opts_has(&c->opts, OPT_setup_WRITE))
		return write_file(r, path, present, &text);
	fprintf(stderr, "# %s would be, with bailiff in it (--write writes it):\n", path);
	return show_out(&text);
}
