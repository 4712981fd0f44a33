#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/record.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/show.h"
#include "supervisor/cli/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)

static bool as_json(const struct cli *c)
{
	return opts_has(&c->opts, OPT_policy_JSON);
}

static void clean(struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(v, &text);
	text_sanitize_line(buf_cstr(&text), text.len, out);
}

/* ---- decisions, for people ---- */

static void show_rules(struct jval refs, struct buf *out)
{
	for (struct jiter it = jiter_on(refs); jiter_next(&it);) {
		buf_str(out, "rule       ");
		clean(jval_get(it.value, "rule"), out);
		buf_str(out, "  (");
		clean(jval_get(it.value, "effect"), out);
		buf_str(out, ", ");
		clean(jval_get(it.value, "file"), out);
		buf_printf(out, ", line %llu)\n", (unsigned long long)jval_uint(jval_get(it.value, "line"), 0));
	}
}

static void show_line(const char *name, struct jval v, struct buf *out)
{
	if (v.type != JT_STRING)
		return;
	buf_printf(out, "%-11s", name);
	clean(v, out);
	buf_byte(out, '\n');
}

static void show_decision(struct jval d, struct buf *out)
{
	show_line("decision", jval_get(d, "decision"), out);
	show_line("source", jval_get(d, "decisionSource"), out);
	show_line("reason", jval_get(d, "decisionReason"), out);
	show_rules(jval_get(d, "ruleRefs"), out);
	show_line("scope", jval_get(d, "scope"), out);
	show_line("action", jval_get(d, "approvalActionId"), out);
	if (jval_bool(jval_get(d, "destructive"), false))
		buf_str(out, "destructive yes\n");
	show_line("impact", jval_get(d, "impact"), out);
	show_line("advice", jval_get(d, "rollbackAdvice"), out);
}

/* ---- check ---- */

static int check(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	char cwd[PATH_MAX], id[TARGET_ID_MAX];
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstrv(&w, "command", c->opts.args + 1, c->opts.nargs - 1);
	if (opts_get(&c->opts, OPT_policy_CWD))
		jw_kstr(&w, "cwd", opts_get(&c->opts, OPT_policy_CWD));
	else if (getcwd(cwd, sizeof(cwd)))
		jw_kstr(&w, "cwd", cwd);
	jw_kopt(&w, "profile", opts_get(&c->opts, OPT_policy_PROFILE));
	if (opts_has(&c->opts, OPT_policy_SESSION)) {
		if (target_session(c, opts_get(&c->opts, OPT_policy_SESSION), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "sessionId", id);
	}
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, "evaluate_permission", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "check");
	if (as_json(c)) {
		buf_append(&out, a.result.text, a.result.len);
		buf_byte(&out, '\n');
	} else {
		show_decision(jval_get(a.result, "permissionDecision"), &out);
		show_line("mode", jval_get(a.result, "mode"), &out);
	}
	if (show_out(&out))
		return EXIT_FAILED;
	return jval_is_str(jval_path(a.result, "permissionDecision.decision"), "allow") ? 0 : EXIT_FAILED;
}

/* ---- show, mode, reload ---- */

static int show(struct cli *c)
{
	static const struct record_column columns[] = {
		{ "EFFECT", "effect", RECORD_WORD }, { "RULE", "rule", RECORD_TEXT }, { "LAYER", "layer", RECORD_WORD }, { "LINE", "line", RECORD_WORD },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[TARGET_ID_MAX];
	struct err e = ERR_INIT;

	jw_obj(&w);
	if (opts_has(&c->opts, OPT_policy_SESSION)) {
		if (target_session(c, opts_get(&c->opts, OPT_policy_SESSION), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "sessionId", id);
	}
	jw_obj_end(&w);
	if (cli_call(c, "get_policy", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "show");
	if (as_json(c))
		return record_show(a.result, true);
	show_line("mode", jval_get(a.result, "mode"), &out);
	show_line("means", jval_get(a.result, "modeMeans"), &out);
	show_line("from", jval_get(a.result, "modeSource"), &out);
	show_line("problem", jval_get(a.result, "problem"), &out);
	for (struct jiter it = jiter_on(jval_get(a.result, "notes")); jiter_next(&it);)
		show_line("note", it.value, &out);
	if (show_out(&out))
		return EXIT_FAILED;
	return record_table(jval_get(a.result, "rules"), columns, sizeof(columns) / sizeof(columns[0]), false);
}

static int mode(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[TARGET_ID_MAX];

	if (target_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "sessionId", id);
	jw_kstr(&w, "mode", c->opts.args[2]);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return record_call(c, "set_permission_mode", &params, "mode", as_json(c));
}

static int reload(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;

	buf_str(&params, "{}");
	return record_call(c, "reload_policy", &params, "status", as_json(c));
}

/* ---- lint ---- */

static int lint(struct cli *c)
{
	const char *file = c->opts.args[1];
	mem_auto char *text = mem_alloc(FILE_MAX + 1);
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, FILE_MAX + 1);

	if (fd >= 0)
		close(fd);
	if (n < 0 || n > (ssize_t)FILE_MAX || !text_utf8_valid(text, (size_t)n)) {
		cli_error("%s: %s", file, n < 0 ? strerror(errno) : n > (ssize_t)FILE_MAX ? "larger than 1 MiB" : "is not UTF-8");
		return EXIT_FAILED;
	}
	jw_obj(&w);
	jw_kstrn(&w, "text", text, (size_t)n);
	jw_kstr(&w, "file", file);
	jw_kopt(&w, "layer", opts_get(&c->opts, OPT_policy_LAYER));
	jw_obj_end(&w);
	if (cli_call(c, "check_policy", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "lint");
	bool ok = jval_bool(jval_get(a.result, "ok"), false);
	if (as_json(c))
		return record_show(a.result, true) ? EXIT_FAILED : ok ? 0 : EXIT_FAILED;
	show_line("problem", jval_get(a.result, "problem"), &out);
	for (struct jiter it = jiter_on(jval_get(a.result, "notes")); jiter_next(&it);)
		show_line("note", it.value, &out);
	if (ok)
		buf_printf(&out, "%llu rules\n", (unsigned long long)jval_uint(jval_get(a.result, "rules"), 0));
	return show_out(&out) || !ok ? EXIT_FAILED : 0;
}

/* ---- explain and suggest ---- */

/* The facts about a process, or about the one that an action is about. */
static int facts_of(struct cli *c, const char *given, struct remote_answer *ret)
{
	remote_answer_auto struct remote_answer actions = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, query = BUF_INIT;
	struct jw w = jw_on(&query);
	char id[TARGET_ID_MAX] = "";
	struct err e = ERR_INIT;

	if (strncmp(given, "act_", 4) == 0) {
		buf_str(&params, "{\"limit\":1000}");
		if (cli_call(c, "list_actions", &params, &actions, &e) < 0)
			return cli_fail(c, -1, &e, "%s", given);
		for (struct jiter it = jiter_on(jval_get(actions.result, "actions")); jiter_next(&it) && !id[0];)
			if (jval_is_str(jval_get(it.value, "actionId"), given))
				jval_str(jval_get(it.value, "processId"), id, sizeof(id));
		if (!id[0]) {
			cli_error("'%s' is about no process", given);
			return -1;
		}
	} else if (target_process(c, given, id) < 0) {
		return -1;
	}
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kuint(&w, "limit", 1000);
	jw_kstrv(&w, "types", (const char *const[]){ "permission.evaluated", "permission.requested", "permission.resolved", "sandbox.violation" }, 4);
	jw_obj_end(&w);
	if (cli_call(c, "list_events", &query, ret, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	return 0;
}

static void explain_event(struct jval ev, struct buf *out)
{
	struct jval payload = jval_get(ev, "payload"), type = jval_get(ev, "type");

	if (jval_is_str(type, "sandbox.violation"))
		return;
	buf_str(out, out->len ? "\n" : "");
	show_line("at", jval_get(ev, "timestamp"), out);
	if (jval_is_str(type, "permission.evaluated")) {
		show_line("command", jval_path(payload, "command.display"), out);
		show_decision(jval_get(payload, "permissionDecision"), out);
		show_line("mode", jval_get(payload, "mode"), out);
	} else if (jval_is_str(type, "permission.requested")) {
		show_line("asked", jval_get(payload, "actionId"), out);
	} else {
		show_line("answer", jval_get(payload, "outcome"), out);
		show_line("by", jval_get(payload, "source"), out);
		show_line("scope", jval_get(payload, "scope"), out);
		show_line("note", jval_get(payload, "note"), out);
	}
}

static int explain(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;

	if (facts_of(c, c->opts.args[1], &a) < 0)
		return EXIT_FAILED;
	if (as_json(c))
		return record_show(jval_get(a.result, "events"), true);
	for (struct jiter it = jiter_on(jval_get(a.result, "events")); jiter_next(&it);)
		explain_event(it.value, &out);
	if (!out.len)
		buf_str(&out, "nothing was decided about it\n");
	return show_out(&out);
}

/* A line of advice, once. */
static void advise(struct buf *all, const char *text)
{
	buf_auto struct buf line = BUF_INIT;

	text_sanitize_line(text, strlen(text), &line);
	buf_byte(&line, '\n');
	if (!all->len || !strstr(all->data, line.data))
		buf_append(all, line.data, line.len);
}

static void suggest_rules(struct jval payload, struct buf *out)
{
	struct jval decision = jval_get(payload, "permissionDecision");

	if (jval_is_str(jval_get(decision, "decision"), "allow"))
		return;
	for (struct jiter it = jiter_on(jval_get(decision, "ruleRefs")); jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT;

		buf_str(&text, "# stopped by ");
		jval_str_buf(jval_get(it.value, "rule"), &text);
		buf_str(&text, " of ");
		jval_str_buf(jval_get(it.value, "file"), &text);
		buf_printf(&text, ", line %llu: no rule that allows is stronger; take it away or make it narrower",
			   (unsigned long long)jval_uint(jval_get(it.value, "line"), 0));
		advise(out, text.data);
	}
	for (struct jiter it = jiter_on(jval_path(payload, "command.subcommands")); jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT;

		buf_str(&text, "permissions.allow \"Bash(");
		jval_str_buf(jval_get(it.value, "text"), &text);
		buf_str(&text, ")\"");
		advise(out, text.data);
	}
}

static void suggest_roots(struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT, path = BUF_INIT;

	jval_str_buf(jval_get(v, "path"), &path);
	if (jval_is_str(jval_get(v, "kind"), "network") && jval_get(v, "host").type == JT_STRING) {
		buf_str(&text, "run --net allow --allow-host ");
		jval_str_buf(jval_get(v, "host"), &text);
		if (jval_uint(jval_get(v, "port"), 0))
			buf_printf(&text, ":%llu", (unsigned long long)jval_uint(jval_get(v, "port"), 0));
	} else if (path.len) {
		char op[64];

		jval_str(jval_get(v, "operation"), op, sizeof(op));
		bool reads = strstr(op, "read") || strstr(op, "exec") || strcmp(op, "open") == 0;
		buf_printf(&text, "run --%s %s", reads ? "ro" : "rw", path.data);
	} else {
		return;
	}
	advise(out, text.data);
}

static int suggest(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;

	if (facts_of(c, c->opts.args[1], &a) < 0)
		return EXIT_FAILED;
	for (struct jiter it = jiter_on(jval_get(a.result, "events")); jiter_next(&it);) {
		if (jval_is_str(jval_get(it.value, "type"), "permission.evaluated"))
			suggest_rules(jval_get(it.value, "payload"), &out);
		else if (jval_is_str(jval_get(it.value, "type"), "sandbox.violation"))
			suggest_roots(jval_get(it.value, "payload"), &out);
	}
	if (!out.len)
		buf_str(&out, "# nothing of it was denied\n");
	return show_out(&out);
}

int cmd_policy(struct cli *c)
{
	static const struct record_verb words[] = {
		{ "check", 1, 10000, true, check },  { "show", 0, 0, true, show },          { "lint", 1, 1, true, lint },
		{ "explain", 1, 1, false, explain }, { "suggest", 1, 1, false, suggest },   { "mode", 2, 2, false, mode },
		{ "reload", 0, 0, false, reload },
	};

	return record_dispatch(c, words, sizeof(words) / sizeof(words[0]));
}
