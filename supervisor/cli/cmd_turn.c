#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static bool as_json(const struct cli *c) { return opts_has(&c->opts, OPT_turn_JSON); }

static void write_parts(const struct cli *c, struct jw *w)
{
	jw_karr(w, "input");
	for (size_t i = 0; i < c->opts.ngiven; i++) {
		const struct opt_given *g = &c->opts.given[i];
		bool text = g->option == OPT_turn_TEXT;

		if (!text && g->option != OPT_turn_LINE)
			continue;
		jw_obj(w);
		jw_kstr(w, "type", text ? "text" : "command");
		jw_kstr(w, text ? "text" : "commandLine", g->value);
		jw_obj_end(w);
	}
	if (c->opts.nargs > 1) {
		jw_obj(w);
		jw_kstr(w, "type", "command");
		jw_kstrv(w, "command", c->opts.args + 1, c->opts.nargs - 1);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static int turn_submit(struct cli *c)
{
	const char *session = opts_get(&c->opts, OPT_turn_SESSION), *cwd = opts_get(&c->opts, OPT_turn_CWD);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX], here[PATH_MAX];

	if (session && id_lookup_session(c, session, id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	if (session)
		jw_kstr(&w, "sessionId", id);
	jw_kopt(&w, "threadId", opts_get(&c->opts, OPT_turn_THREAD));
	write_parts(c, &w);
	jw_kobj(&w, "options");
	if (!cwd && getcwd(here, sizeof(here)))
		cwd = here;
	jw_kopt(&w, "cwd", cwd);
	jw_kopt(&w, "profile", opts_get(&c->opts, OPT_turn_PROFILE));
	if (opts_has(&c->opts, OPT_turn_REJECT))
		jw_kstr(&w, "whenBusy", "reject");
	if (opts_has(&c->opts, OPT_turn_KEEP_GOING))
		jw_kbool(&w, "stopOnFailure", false);
	jw_kstr(&w, "onDisconnect", "keep"); /* this connection is over when the id is printed */
	jw_obj_end(&w);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "submit_turn", &params, "turnId", as_json(c));
}

/* What the other verbs have in common: a turn, and options that become members. */
static int change_turn(struct cli *c, const char *method, const char *shown)
{
	static const struct {
		int option;
		const char *member;
	} rows[] = {
		{ OPT_turn_REASON, "reason" },
		{ OPT_turn_SUMMARY, "summary" },
		{ OPT_turn_MESSAGE, "message" },
		{ OPT_turn_CATEGORY, "category" },
	};
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "turnId", c->opts.args[1]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		jw_kopt(&w, rows[i].member, opts_get(&c->opts, rows[i].option));
	if (opts_has(&c->opts, OPT_turn_CLEAR_QUEUE))
		jw_kbool(&w, "clearQueue", true);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, method, &params, shown, as_json(c));
}

static int complete(struct cli *c) { return change_turn(c, "complete_turn", "status"); }

static int fail(struct cli *c) { return change_turn(c, "fail_turn", "status"); }

static int interrupt(struct cli *c) { return change_turn(c, "interrupt_turn", "status"); }

static int promote(struct cli *c) { return change_turn(c, "promote_queued_turn", "status"); }

static int remove_queued(struct cli *c) { return change_turn(c, "remove_queued_turn", "status"); }

int cmd_turn(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "submit", 0, SIZE_MAX, true, turn_submit },
		{ "complete", 1, 1, false, complete },
		{ "fail", 1, 1, false, fail },
		{ "interrupt", 1, 1, false, interrupt },
		{ "promote", 1, 1, false, promote },
		{ "remove", 1, 1, false, remove_queued },
	};
	bool parts = c->opts.nargs > 1 || opts_has(&c->opts, OPT_turn_TEXT) || opts_has(&c->opts, OPT_turn_LINE);

	if (c->opts.nargs && strcmp(c->opts.args[0], "submit") == 0 && !parts)
		return cli_usage(c, "submit needs --text, --line or a command");
	return noun_verb_run(c, subverbs, sizeof(subverbs) / sizeof(subverbs[0]));
}
