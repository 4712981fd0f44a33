#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)

static bool as_json(const struct cli *c) { return opts_has(&c->opts, OPT_policy_JSON); }

static void append_clean(struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(v, &text);
	text_sanitize_line(buf_cstr(&text), text.len, out);
}

/* ---- decisions, for people ---- */

/* "policy.json, line 3" or, for a session's rules, "session sess_x, deny rule 2". */
static void append_source(struct jval ref, struct buf *out)
{
	if (jval_get(ref, "sessionId").type == JT_STRING) {
		buf_str(out, "session ");
		append_clean(jval_get(ref, "sessionId"), out);
		buf_str(out, ", ");
		append_clean(jval_get(ref, "list"), out);
		buf_printf(out, " rule %llu", (unsigned long long)jval_uint(jval_get(ref, "number"), 0));
		return;
	}
	append_clean(jval_get(ref, "file"), out);
	buf_printf(out, ", line %llu", (unsigned long long)jval_uint(jval_get(ref, "line"), 0));
}

/* `name` is the label for entries that are not hooks. */
static void show_refs(const char *name, struct jval refs, struct buf *out)
{
	for (struct jiter it = jiter_on(refs); jiter_next(&it);) {
		buf_printf(out, "%-11s", jval_is_str(jval_get(it.value, "effect"), "hook") ? "hook" : name);
		append_clean(jval_get(it.value, "rule"), out);
		buf_str(out, "  (");
		append_clean(jval_get(it.value, "effect"), out);
		buf_str(out, ", ");
		append_source(it.value, out);
		buf_str(out, ")\n");
	}
}

static void show_line(const char *name, struct jval v, struct buf *out)
{
	if (v.type != JT_STRING)
		return;
	buf_printf(out, "%-11s", name);
	append_clean(v, out);
	buf_byte(out, '\n');
}

static void show_decision(struct jval d, struct buf *out)
{
	show_line("decision", jval_get(d, "decision"), out);
	show_line("source", jval_get(d, "decisionSource"), out);
	show_line("reason", jval_get(d, "decisionReason"), out);
	show_refs("rule", jval_get(d, "ruleRefs"), out);
	show_line("scope", jval_get(d, "scope"), out);
	show_line("action", jval_get(d, "approvalActionId"), out);
	if (jval_bool(jval_get(d, "destructive"), false))
		buf_str(out, "destructive yes\n");
	show_line("impact", jval_get(d, "impact"), out);
	show_line("advice", jval_get(d, "rollbackAdvice"), out);
}

/* Environment variables that change what the command runs. */
static void show_environment(struct jval command, struct buf *out)
{
	for (struct jiter it = jiter_on(jval_get(command, "environment")); jiter_next(&it);)
		show_line("with", jval_get(it.value, "text"), out);
}

/* ---- check ---- */

static void write_workspace(const struct cli *c, struct jw *w)
{
	char cwd[PATH_MAX];

	if (opts_get(&c->opts, OPT_policy_CWD))
		jw_kstr(w, "cwd", opts_get(&c->opts, OPT_policy_CWD));
	else if (getcwd(cwd, sizeof(cwd)))
		jw_kstr(w, "cwd", cwd);
}

/* −1: one of them is not a valid assignment. */
static int write_environment(const struct cli *c, struct jw *w)
{
	jw_kobj(w, "env");
	for (size_t i = 0; i < c->opts.ngiven; i++) {
		const char *text = c->opts.given[i].value,
			   *equals = c->opts.given[i].option == OPT_policy_ENV ? strchr(text, '=') : NULL;

		if (c->opts.given[i].option != OPT_policy_ENV)
			continue;
		if (!equals || equals == text) {
			cli_error("check: option '--env': '%s' is not K=V", text);
			return -1;
		}
		mem_auto char *name = mem_strndup(text, (size_t)(equals - text));
		jw_kstr(w, name, equals + 1);
	}
	jw_obj_end(w);
	return 0;
}

static int policy_check(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstrv(&w, "command", c->opts.args + 1, c->opts.nargs - 1);
	write_workspace(c, &w);
	jw_kopt(&w, "profile", opts_get(&c->opts, OPT_policy_PROFILE));
	if (opts_has(&c->opts, OPT_policy_ENV) && write_environment(c, &w) < 0)
		return EXIT_USAGE;
	if (opts_has(&c->opts, OPT_policy_SESSION)) {
		if (id_lookup_session(c, opts_get(&c->opts, OPT_policy_SESSION), id) < 0)
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
		show_environment(jval_get(a.result, "command"), &out);
		show_decision(jval_get(a.result, "permissionDecision"), &out);
		show_line("mode", jval_get(a.result, "mode"), &out);
		show_refs("hook", jval_get(a.result, "hooks"), &out);
	}
	if (format_out(&out))
		return EXIT_FAILED;
	return jval_is_str(jval_path(a.result, "permissionDecision.decision"), "allow") ? 0 : EXIT_FAILED;
}

/* ---- show, mode, reload ---- */

static int policy_show(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "EFFECT", "effect", COLUMN_WORD },
		{ "RULE", "rule", COLUMN_TEXT },
		{ "LAYER", "layer", COLUMN_WORD },
		{ "LINE", "line", COLUMN_WORD, "number" },
		{ "FILE", "file", COLUMN_TEXT, "sessionId" },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	struct err e = ERR_INIT;

	jw_obj(&w);
	write_workspace(c, &w);
	if (opts_has(&c->opts, OPT_policy_SESSION)) {
		if (id_lookup_session(c, opts_get(&c->opts, OPT_policy_SESSION), id) < 0)
			return EXIT_FAILED;
		jw_kstr(&w, "sessionId", id);
	}
	jw_obj_end(&w);
	if (cli_call(c, "get_policy", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "show");
	if (as_json(c))
		return noun_verb_show(a.result, true);
	show_line("mode", jval_get(a.result, "mode"), &out);
	show_line("means", jval_get(a.result, "modeMeans"), &out);
	if (jval_bool(jval_get(a.result, "strict"), false))
		buf_str(&out, "strict     code that is not in a command's words asks\n");
	show_line("from", jval_get(a.result, "modeSource"), &out);
	show_line("problem", jval_get(a.result, "problem"), &out);
	for (struct jiter it = jiter_on(jval_get(a.result, "notes")); jiter_next(&it);)
		show_line("note", it.value, &out);
	show_refs("hook", jval_get(a.result, "hooks"), &out);
	if (format_out(&out))
		return EXIT_FAILED;
	return noun_verb_table(jval_get(a.result, "rules"), columns, sizeof(columns) / sizeof(columns[0]), false);
}

static int policy_mode(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];

	if (id_lookup_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "sessionId", id);
	jw_kstr(&w, "mode", c->opts.args[2]);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "set_permission_mode", &params, "mode", as_json(c));
}

static int policy_reload(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;

	buf_str(&params, "{}");
	return noun_verb_call(c, "reload_policy", &params, "status", as_json(c));
}

/* ---- lint ---- */

static int policy_lint(struct cli *c)
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
		cli_error("%s: %s", file,
			  n < 0                   ? strerror(errno)
			  : n > (ssize_t)FILE_MAX ? "larger than 1 MiB"
						  : "is not UTF-8");
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
		return noun_verb_show(a.result, true) ? EXIT_FAILED : ok ? 0 : EXIT_FAILED;
	show_line("problem", jval_get(a.result, "problem"), &out);
	for (struct jiter it = jiter_on(jval_get(a.result, "notes")); jiter_next(&it);)
		show_line("note", it.value, &out);
	if (ok)
		buf_printf(&out, "%llu rules, %llu hooks\n",
			   (unsigned long long)jval_uint(jval_get(a.result, "rules"), 0),
			   (unsigned long long)jval_uint(jval_get(a.result, "hooks"), 0));
	return format_out(&out) || !ok ? EXIT_FAILED : 0;
}

/* ---- explain and suggest ---- */

/* The subject of the events: a process, or a tool call that a client runs itself. */
struct explained {
	char process_id[ID_LOOKUP_MAX], turn_id[ID_LOOKUP_MAX], call_id[ID_LOOKUP_MAX];
};

/* An action may concern a process or a tool call; events of the latter are found through its turn. */
static int explained_find(struct cli *c, const char *given, struct explained *ret)
{
	buf_auto struct buf action = BUF_INIT;

	*ret = (struct explained){ 0 };
	if (strncmp(given, "act_", 4) != 0)
		return id_lookup_process(c, given, ret->process_id);
	if (noun_verb_find(c, "list_actions", "actions", "actionId", given, &action) < 0)
		return -1;
	struct jval a = jval_of(action.data, action.len);
	jval_str(jval_get(a, "processId"), ret->process_id, sizeof(ret->process_id));
	jval_str(jval_get(a, "turnId"), ret->turn_id, sizeof(ret->turn_id));
	jval_str(jval_get(a, "toolCallId"), ret->call_id, sizeof(ret->call_id));
	if (ret->process_id[0] || ret->call_id[0])
		return 0;
	cli_error("'%s' concerns neither a process nor a tool", given);
	return -1;
}

/* The decisions about a process, or about the subject of an action; as an array. */
static int read_decisions(struct cli *c, const char *given, struct buf *ret)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf query = BUF_INIT;
	struct jw w = jw_on(&query);
	struct explained of;
	struct err e = ERR_INIT;

	if (explained_find(c, given, &of) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, of.process_id[0] ? "processId" : "turnId", of.process_id[0] ? of.process_id : of.turn_id);
	jw_kuint(&w, "limit", 1000);
	jw_kstrv(&w, "types",
		 (const char *const[]){ "permission.evaluated", "permission.requested", "permission.resolved",
					"process.completed", "process.failed", "process.terminated", "hook.completed",
					"hook.failed" },
		 8);
	jw_obj_end(&w);
	if (cli_call(c, "list_events", &query, &a, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	struct jw list = jw_on(ret);
	jw_arr(&list);
	for (struct jiter it = jiter_on(jval_get(a.result, "events")); jiter_next(&it);)
		if (of.process_id[0] || jval_is_str(jval_get(it.value, "toolCallId"), of.call_id))
			jw_raw(&list, it.value.text, it.value.len);
	jw_arr_end(&list);
	return 0;
}

static void explain_hook(struct jval payload, struct buf *out)
{
	show_line("hook", jval_get(payload, "handlerRef"), out);
	show_line("point", jval_get(payload, "hookPoint"), out);
	show_line("said", jval_get(payload, "decision"), out);
	show_line("reason", jval_get(payload, "reason"), out);
	show_line("failed", jval_get(payload, "message"), out);
	show_line("process", jval_get(payload, "processId"), out);
}

/* A command too long for an event is stored separately; an approver may want to read all of it. */
static void show_whole(struct cli *c, struct jval payload, struct buf *out)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jval ref = jval_get(payload, "commandRef");
	struct err e = ERR_INIT;

	if (ref.type != JT_STRING)
		return;
	buf_printf(&params, "{\"outputRef\":%.*s,\"length\":%u}", (int)ref.len, ref.text, 1u << 20);
	if (cli_call(c, "read_output", &params, &a, &e) == 0)
		show_line("whole", jval_get(a.result, "data"), out);
}

static void explain_event(struct cli *c, struct jval ev, struct buf *out)
{
	struct jval payload = jval_get(ev, "payload"), type = jval_get(ev, "type");

	if (strncmp(type.text, "\"process.", 9) == 0)
		return;
	buf_str(out, out->len ? "\n" : "");
	show_line("at", jval_get(ev, "timestamp"), out);
	if (strncmp(type.text, "\"hook.", 6) == 0) {
		explain_hook(payload, out);
	} else if (jval_is_str(type, "permission.evaluated")) {
		show_line("command", jval_path(payload, "command.display"), out);
		show_environment(jval_get(payload, "command"), out);
		show_decision(jval_get(payload, "permissionDecision"), out);
		show_line("mode", jval_get(payload, "mode"), out);
	} else if (jval_is_str(type, "permission.requested")) {
		show_line("asked", jval_get(payload, "actionId"), out);
		show_line("tool", jval_get(payload, "toolName"), out);
		show_whole(c, payload, out);
	} else {
		show_line("answer", jval_get(payload, "outcome"), out);
		show_line("by", jval_get(payload, "source"), out);
		show_line("scope", jval_get(payload, "scope"), out);
		show_line("note", jval_get(payload, "note"), out);
	}
}

static int policy_explain(struct cli *c)
{
	buf_auto struct buf facts = BUF_INIT, out = BUF_INIT;

	if (read_decisions(c, c->opts.args[1], &facts) < 0)
		return EXIT_FAILED;
	const struct jval events = jval_of(facts.data, facts.len);
	if (as_json(c))
		return noun_verb_show(events, true);
	for (struct jiter it = jiter_on(events); jiter_next(&it);)
		explain_event(c, it.value, &out);
	if (!out.len)
		buf_str(&out, "nothing was decided about it\n");
	return format_out(&out);
}

/* Appends a line of advice, without duplicates. */
static void print_advice(struct buf *all, const char *text)
{
	buf_auto struct buf line = BUF_INIT;

	text_sanitize_line(text, strlen(text), &line);
	buf_byte(&line, '\n');
	if (!all->len || !strstr(all->data, line.data))
		buf_append(all, line.data, line.len);
}

static void advise_each(struct jval list, const char *before, const char *after, struct buf *out)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT;

		buf_str(&text, before);
		jval_str_buf(it.value, &text);
		buf_str(&text, after);
		print_advice(out, text.data);
	}
}

static void suggest_rules(struct jval payload, struct buf *out)
{
	struct jval decision = jval_get(payload, "permissionDecision"), suggestion = jval_get(payload, "suggestion");

	if (jval_is_str(jval_get(decision, "decision"), "allow"))
		return;
	for (struct jiter it = jiter_on(jval_get(decision, "ruleRefs")); jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT;

		buf_str(&text, "# stopped by ");
		jval_str_buf(jval_get(it.value, "rule"), &text);
		buf_str(&text, " of ");
		append_source(it.value, &text);
		buf_str(&text, ": no rule that allows is stronger; take it away or make it narrower");
		print_advice(out, text.data);
	}
	advise_each(jval_get(suggestion, "allow"), "permissions.allow \"", "\"", out);
	if (jval_get(suggestion, "why").type == JT_STRING) {
		buf_auto struct buf text = BUF_INIT;

		buf_str(&text, "# no rule would allow it: ");
		jval_str_buf(jval_get(suggestion, "why"), &text);
		print_advice(out, text.data);
	}
}

/* What its sandbox lacked, as options of `bailiff run`. */
static void suggest_roots(struct jval open, struct buf *out)
{
	advise_each(jval_get(open, "writeRoots"), "run --rw ", "", out);
	advise_each(jval_get(open, "readRoots"), "run --ro ", "", out);
	advise_each(jval_get(open, "allowHosts"), "run --net allow --allow-host ", "", out);
}

static void suggest_json(struct jval events, struct buf *out)
{
	struct jw w = jw_on(out);
	struct jval rules = { 0 }, open = { 0 };

	for (struct jiter it = jiter_on(events); jiter_next(&it);) {
		struct jval payload = jval_get(it.value, "payload");

		if (jval_is_str(jval_get(it.value, "type"), "permission.evaluated"))
			rules = jval_is_str(jval_path(payload, "permissionDecision.decision"), "allow")
					? (struct jval){ 0 }
					: jval_get(payload, "suggestion");
		else if (jval_get(payload, "wouldOpen").type == JT_OBJECT)
			open = jval_get(payload, "wouldOpen");
	}
	jw_obj(&w);
	if (rules.type == JT_OBJECT)
		jw_kraw(&w, "permissions", rules.text, rules.len);
	if (open.type == JT_OBJECT)
		jw_kraw(&w, "sandbox", open.text, open.len);
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

static int policy_suggest(struct cli *c)
{
	buf_auto struct buf facts = BUF_INIT, out = BUF_INIT;

	if (read_decisions(c, c->opts.args[1], &facts) < 0)
		return EXIT_FAILED;
	const struct jval events = jval_of(facts.data, facts.len);
	if (as_json(c)) {
		suggest_json(events, &out);
		return format_out(&out);
	}
	for (struct jiter it = jiter_on(events); jiter_next(&it);) {
		if (jval_is_str(jval_get(it.value, "type"), "permission.evaluated"))
			suggest_rules(jval_get(it.value, "payload"), &out);
		else
			suggest_roots(jval_path(it.value, "payload.wouldOpen"), &out);
	}
	if (!out.len)
		buf_str(&out, "# nothing of it was denied\n");
	return format_out(&out);
}

int cmd_policy(struct cli *c)
{
	static const struct noun_verb words[] = {
		{ "check", 1, 10000, true, policy_check },  { "show", 0, 0, true, policy_show },
		{ "lint", 1, 1, true, policy_lint },        { "explain", 1, 1, false, policy_explain },
		{ "suggest", 1, 1, false, policy_suggest }, { "mode", 2, 2, false, policy_mode },
		{ "reload", 0, 0, false, policy_reload },
	};

	return noun_verb_run(c, words, sizeof(words) / sizeof(words[0]));
}
