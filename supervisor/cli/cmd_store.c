#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/find_program.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/staged_backup.h"
#include "supervisor/client/home_candidates.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Adds the request's own members; −1 after printing a usage error. */
static int add_age(struct cli *c, struct jw *w)
{
	const char *text = opts_get(&c->opts, OPT_store_OLDER_THAN);
	struct err e = ERR_INIT;
	uint64_t ms;

	if (!text) {
		cli_usage(c, "prune needs '--older-than'");
		return -1;
	}
	if (text_duration_ms(text, &ms, &e) < 0) {
		cli_usage(c, "option '--older-than': %s", e.message);
		return -1;
	}
	jw_kuint(w, "olderThanMs", ms);
	return 0;
}

static const struct subverb {
	const char *name, *method;
	size_t nargs;
	bool mutating;
	const char *doing;
	int (*add)(struct cli *c, struct jw *w);
} subverbs[] = {
	{ "verify", "verify_store", 1, false, "verifying the store", NULL },
	{ "rebuild", "rebuild_store", 1, true, "rebuilding the read models", NULL },
	{ "compact", "compact_store", 1, true, "compacting the store", NULL },
	{ "backup", "backup_store", 2, true, "copying the store", NULL },
	{ "restore", NULL, 2, true, NULL, NULL },
	{ "stats", "get_store_stats", 1, false, NULL, NULL },
	{ "prune", "prune_store", 1, true, "removing what is old", add_age },
};

static const struct subverb *find_subverb(const char *name)
{
	for (size_t i = 0; i < sizeof(subverbs) / sizeof(subverbs[0]); i++)
		if (strcmp(subverbs[i].name, name) == 0)
			return &subverbs[i];
	return NULL;
}

static int show_result(struct cli *c, struct jval result)
{
	struct jval ok = jval_get(result, "ok");
	buf_auto struct buf out = BUF_INIT;
	int status;

	if (opts_has(&c->opts, OPT_store_JSON)) {
		buf_append(&out, result.text, result.len);
		buf_byte(&out, '\n');
	} else {
		format_json(result, 0, &out);
	}
	status = format_out(&out);
	return ok.type == JT_FALSE ? EXIT_FAILED : status;
}

/* The path of the store of the daemon that answers. */
static int find_store(struct cli *c, char ret[PATH_MAX], struct err *e)
{
	struct home places[HOME_CANDIDATES_MAX];
	size_t n = home_candidates(getuid(), places);

	for (size_t i = 0; i < n; i++)
		if (strcmp(places[i].socket, remote_socket_path(c->remote)) == 0) {
			snprintf(ret, PATH_MAX, "%s", places[i].store);
			return 0;
		}
	return err_set(e, ERR_UNAVAILABLE, "the store of the daemon at %s was not found",
		       remote_socket_path(c->remote));
}

/* The daemon wrote the backup into its store's directory: move it to the requested place. */
static int move_backup(struct cli *c, struct jval result)
{
	const char *dir = c->opts.args[1];
	char store[PATH_MAX], staged[PATH_MAX + 16];
	struct err e = ERR_INIT;

	if (find_store(c, store, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "store backup");
	snprintf(staged, sizeof(staged), "%s/backup", store);
	if (staged_backup_take(staged, dir, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "store backup");
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	jw_obj(&w);
	jw_kstr(&w, "dir", dir);
	jw_kuint(&w, "sequence", jval_uint(jval_get(result, "sequence"), 0));
	jw_obj_end(&w);
	return show_result(c, jval_of(text.data, text.len));
}

/* Run by the daemon's program, which knows the owners of the files; it refuses while a daemon runs. */
static int restore_backup(struct cli *c)
{
	static const char *const programs[] = { "bailiffd", "../sbin/bailiffd" };
	struct home places[HOME_CANDIDATES_MAX];
	mem_auto char *program = find_program(programs, countof(programs));
	char option[] = "--restore", home[] = "--home";

	(void)home_candidates(getuid(), places);
	char *argv[] = {
		program, option, (char *)c->opts.args[1], places[0].dir[0] ? home : NULL, places[0].dir, NULL
	};
	execvp(program, argv);
	cli_error("store restore: %s: %s", program, strerror(errno));
	return EXIT_FAILED;
}

int cmd_store(struct cli *c)
{
	const struct subverb *v = c->opts.nargs ? find_subverb(c->opts.args[0]) : NULL;
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	if (!v)
		return c->opts.nargs
			       ? cli_usage(c, "unknown verb '%s'", c->opts.args[0])
			       : cli_usage(c,
					   "missing verb: verify, rebuild, compact, backup, restore, stats or prune");
	if (c->opts.nargs != v->nargs)
		return cli_usage(c, "%s takes %s", v->name, v->nargs == 2 ? "a folder" : "no arguments");
	if (!v->method)
		return restore_backup(c);
	if (v->nargs == 2 && access(c->opts.args[1], F_OK) == 0) {
		cli_error("store %s: '%s' exists; name a folder that does not exist", v->name, c->opts.args[1]);
		return EXIT_FAILED;
	}
	jw_obj(&w);
	if (v->add && v->add(c, &w) < 0)
		return EXIT_USAGE;
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (v->mutating)
		remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (v->doing && isatty(STDERR_FILENO))
		cli_error("%s ...", v->doing);
	if (cli_call(c, v->method, &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "store %s", v->name);
	return v->nargs == 2 ? move_backup(c, a.result) : show_result(c, a.result);
}
