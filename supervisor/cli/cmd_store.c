#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/client/remote.h"
#include "supervisor/cli/show.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

/* Adds the request's own members; −1 after printing why not, as a usage error. */
static int add_dir(struct cli *c, struct jw *w)
{
	buf_auto struct buf path = BUF_INIT;
	char here[PATH_MAX];
	const char *dir = c->opts.args[1];

	if (dir[0] != '/') {
		if (!getcwd(here, sizeof(here))) {
			cli_error("store: the working directory: %s", strerror(errno));
			return -1;
		}
		buf_printf(&path, "%s/", here);
	}
	buf_str(&path, dir);
	jw_kstr(w, "dir", path.data);
	return 0;
}

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
	{ "backup", "backup_store", 2, true, "copying the store", add_dir },
	{ "stats", "get_store_stats", 1, false, NULL, NULL },
	{ "prune", "prune_store", 1, true, "removing what is old", add_age },
};

static const struct subverb *find(const char *name)
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
		show_json(result, 0, &out);
	}
	status = show_out(&out);
	return ok.type == JT_FALSE ? EXIT_FAILED : status;
}

int cmd_store(struct cli *c)
{
	const struct subverb *v = c->opts.nargs ? find(c->opts.args[0]) : NULL;
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	if (!v)
		return c->opts.nargs ? cli_usage(c, "unknown verb '%s'", c->opts.args[0]) : cli_usage(c, "what is to be done?");
	if (c->opts.nargs != v->nargs)
		return cli_usage(c, "%s takes %s", v->name, v->nargs == 2 ? "a folder" : "no arguments");
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
	return show_result(c, a.result);
}
