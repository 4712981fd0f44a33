/* `policy`: what is decided about a command, why, and what would change it. */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/policy_explanation.h"
#include "supervisor/cli/sandbox_options.h"

#include <errno.h>
#include <fcntl.h>

#define FILE_MAX (1u << 20)

/* ---- decisions, for people ---- */

/* "policy.json, line 3" or, for a session's rules, "session sess_x, deny rule 2". */
static void append_source(struct jval ref, struct buf *out)
{
	if (jval_get(ref, "sessionId").type == JT_STRING) {
		buf_str(out, "session ");
		format_scalar(jval_get(ref, "sessionId"), out);
		buf_str(out, ", ");
		format_scalar(jval_get(ref, "list"), out);
		buf_printf(out, " rule %llu", (unsigned long long)jval_uint(jval_get(ref, "number"), 0));
		return;
	}
	format_scalar(jval_get(ref, "file"), out);
	buf_printf(out, ", line %llu", (unsigned long long)jval_uint(jval_get(ref, "line"), 0));
}

/* `name` is the label for entries that are not hooks. */
static void show_refs(const char *name, struct jval refs, struct buf *out)
{
	for (struct jiter it = jiter_on(refs); jiter_next(&it);) {
		buf_printf(out, "%-11s", jval_is_str(jval_get(it.value, "effect"), "hook") ? "hook" : name);
		format_scalar(jval_get(it.value, "rule"), out);
		buf_str(out, "  (");
		format_scalar(jval_get(it.value, "effect"), out);
		buf_str(out, ", ");
		append_source(it.value, out);
		buf_str(out, ")\n");
	}
}

/* "name       text", if there is such a text. */
static void show_line(const char *name, struct jval v, struct buf *out)
{
	if (v.type != JT_STRING)
		return;
	buf_printf(out, "%-11s", name);
	format_scalar(v, out);
	buf_byte(out, '\n');
}

/*
 * All members of a decision that help a person to understand it, in the order of the argument: what, why, by which
 * rule.
 */
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

/* The members that say where: the folder, and the session whose rules and mode apply. −1 after printing an error. */
static int write_place(struct cli *c, struct jw *w)
{
	if (file_option_cwd(c, OPT_policy_CWD, w))
		return -1;
	return id_lookup_option(c, OPT_policy_SESSION, ID_SESSION, "sessionId", w);
}

/* Exit status 0 only if the command would run without a question: for scripts. */
int policy_check(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	int status;

	jw_kstrv(&q.w, "command", c->opts.args + 1, c->opts.nargs - 1);
	jw_kopt(&q.w, "profile", opts_get(&c->opts, OPT_policy_PROFILE));
	jw_kobj(&q.w, "env");
	if (env_options_write(&c->opts, OPT_policy_ENV, -1, &q.w, &q.e) < 0)
		return cli_usage(c, "check: %s", q.e.message);
	jw_obj_end(&q.w);
	if (write_place(c, &q.w) < 0)
		return EXIT_FAILED;
	if (request_change(c, &q, "evaluate_permission") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "check");
	if (cli_as_json(c)) {
		status = format_record(q.result, true);
	} else {
		show_environment(jval_get(q.result, "command"), &out);
		show_decision(jval_get(q.result, "permissionDecision"), &out);
		show_line("mode", jval_get(q.result, "mode"), &out);
		show_refs("hook", jval_get(q.result, "hooks"), &out);
		show_line("note", jval_path(q.result, "sandboxProfile.hiddenNote"), &out);
		status = format_out(&out);
	}
	return !status && jval_is_str(jval_path(q.result, "permissionDecision.decision"), "allow") ? 0 : EXIT_FAILED;
}

/* ---- show and lint ---- */

/* A file with a problem is not in effect at all; notes are about single rules that are ignored. */
static void show_notes(struct jval result, struct buf *out)
{
	show_line("problem", jval_get(result, "problem"), out);
	for (struct jiter it = jiter_on(jval_get(result, "notes")); jiter_next(&it);)
		show_line("note", it.value, out);
}

int policy_show(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;

	if (write_place(c, &q.w) < 0)
		return EXIT_FAILED;
	if (request_read(c, &q, "get_policy") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "show");
	if (cli_as_json(c))
		return format_record(q.result, true);
	show_line("mode", jval_get(q.result, "mode"), &out);
	show_line("means", jval_get(q.result, "modeMeans"), &out);
	if (jval_bool(jval_get(q.result, "strict"), false))
		buf_str(&out, "strict     code that is not in a command's words asks\n");
	show_line("from", jval_get(q.result, "modeSource"), &out);
	show_notes(q.result, &out);
	show_refs("hook", jval_get(q.result, "hooks"), &out);
	if (format_out(&out))
		return EXIT_FAILED;
	return format_columns("EFFECT=effect RULE=rule LAYER=layer LINE=line,number FILE=file,sessionId",
			      jval_get(q.result, "rules"), false);
}

/* The file is read here, with the rights of the user, and checked by the daemon, which has the parser. */
int policy_lint(struct cli *c)
{
	const char *file = c->opts.args[1];
	mem_auto char *text = mem_alloc(FILE_MAX + 1);
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	fd_auto int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, FILE_MAX + 1);

	if (n < 0 || n > (ssize_t)FILE_MAX || !text_utf8_valid(text, (size_t)n)) {
		cli_error("%s: %s", file,
			  n < 0                   ? strerror(errno)
			  : n > (ssize_t)FILE_MAX ? "larger than 1 MiB"
						  : "is not UTF-8");
		return EXIT_FAILED;
	}
	jw_kstrn(&q.w, "text", text, (size_t)n);
	jw_kstr(&q.w, "file", file);
	jw_kopt(&q.w, "layer", opts_get(&c->opts, OPT_policy_LAYER));
	if (request_read(c, &q, "check_policy") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "lint");
	bool ok = jval_bool(jval_get(q.result, "ok"), false);
	show_notes(q.result, &out);
	if (ok)
		buf_printf(&out, "%llu rules, %llu hooks\n",
			   (unsigned long long)jval_uint(jval_get(q.result, "rules"), 0),
			   (unsigned long long)jval_uint(jval_get(q.result, "hooks"), 0));
	return (cli_as_json(c) ? format_record(q.result, true) : format_out(&out)) || !ok ? EXIT_FAILED : 0;
}

/* ---- explain and suggest ---- */

/*
 * The decisions about a process, or about the subject of an action, as an array of events. An action may concern a
 * process or a tool call that a client runs itself; events of the latter are found through its turn.
 */
static int read_decisions(struct cli *c, const char *given, struct buf *ret)
{
	static const char *const types[] = { "permission.evaluated", "permission.requested", "permission.resolved",
					     "process.completed",    "process.failed",       "process.terminated",
					     "hook.completed",       "hook.failed" };
	char process[ID_LOOKUP_MAX] = "", turn[ID_LOOKUP_MAX] = "", call[ID_LOOKUP_MAX] = "";
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf action = BUF_INIT;

	if (strncmp(given, "act_", 4) != 0) {
		if (id_lookup(c, ID_PROCESS, given, process) < 0)
			return -1;
	} else {
		if (id_lookup_element(c, ID_ACTION, given, &action) < 0)
			return -1;
		struct jval a = jval_of(action.data, action.len);
		jval_str(jval_get(a, "processId"), process, sizeof(process));
		jval_str(jval_get(a, "turnId"), turn, sizeof(turn));
		jval_str(jval_get(a, "toolCallId"), call, sizeof(call));
		if (!process[0] && !call[0]) {
			cli_error("'%s' concerns neither a process nor a tool", given);
			return -1;
		}
	}
	jw_kstr(&q.w, process[0] ? "processId" : "turnId", process[0] ? process : turn);
	jw_kuint(&q.w, "limit", 1000);
	jw_kstrv(&q.w, "types", types, countof(types));
	if (request_read(c, &q, "list_events") < 0)
		return cli_fail(c, -1, &q.e, "%s", given);
	struct jw list = jw_on(ret);
	jw_arr(&list);
	for (struct jiter it = jiter_on(jval_get(q.result, "events")); jiter_next(&it);)
		if (process[0] || jval_is_str(jval_get(it.value, "toolCallId"), call))
			jw_raw(&list, it.value.text, it.value.len);
	jw_arr_end(&list);
	return 0;
}

#define SHOWN_WHOLE 1024u /* bytes of a command that prompts and display never shorten */

/*
 * What prompt and display leave out of a long command, for the approver: its arguments, one on a line. A command too
 * long for an event is stored separately.
 */
static void show_whole(struct cli *c, struct jval payload, struct buf *out)
{
	struct jval ref = jval_get(payload, "commandRef"), command = jval_get(payload, "command");
	request_auto struct request q = REQUEST_INIT(q);

	if (ref.type != JT_STRING && command.len > SHOWN_WHOLE)
		for (struct jiter it = jiter_on(command); jiter_next(&it);)
			show_line("whole", it.value, out);
	if (ref.type != JT_STRING)
		return;
	jw_kraw(&q.w, "outputRef", ref.text, ref.len);
	jw_kuint(&q.w, "length", 1u << 20);
	if (request_read(c, &q, "read_output") == 0)
		show_line("whole", jval_get(q.result, "data"), out);
}

/* One paragraph for each event. Ends of processes are only needed by `suggest`. */
static void explain_event(struct cli *c, struct jval ev, struct buf *out)
{
	struct jval payload = jval_get(ev, "payload"), type = jval_get(ev, "type");

	if (strncmp(type.text, "\"process.", 9) == 0)
		return;
	buf_str(out, out->len ? "\n" : "");
	show_line("at", jval_get(ev, "timestamp"), out);
	if (strncmp(type.text, "\"hook.", 6) == 0) {
		show_line("hook", jval_get(payload, "handlerRef"), out);
		show_line("point", jval_get(payload, "hookPoint"), out);
		show_line("decided", jval_get(payload, "decision"), out);
		show_line("reason", jval_get(payload, "reason"), out);
		show_line("failed", jval_get(payload, "message"), out);
		show_line("process", jval_get(payload, "processId"), out);
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

static void explain_all(struct cli *c, struct jval events, struct buf *out)
{
	for (struct jiter it = jiter_on(events); jiter_next(&it);)
		explain_event(c, it.value, out);
	if (!out->len)
		buf_str(out, "nothing was decided about it\n");
}

int policy_explanation(struct cli *c, const char *given, struct buf *out)
{
	buf_auto struct buf found = BUF_INIT;

	if (read_decisions(c, given, &found) < 0)
		return -1;
	explain_all(c, jval_of(found.data, found.len), out);
	return 0;
}

int policy_explain(struct cli *c)
{
	buf_auto struct buf found = BUF_INIT, out = BUF_INIT;

	if (read_decisions(c, c->opts.args[1], &found) < 0)
		return EXIT_FAILED;
	const struct jval events = jval_of(found.data, found.len);
	if (cli_as_json(c))
		return format_record(events, true);
	explain_all(c, events, &out);
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

/* One line for each element: before, the element, after. */
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

/* A rule that denies cannot be overridden by one that allows, so it is named first. */
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
		buf_str(&text, "; an allow rule cannot override it: remove it or make it narrower");
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

/* The last decision counts: an earlier one may have been answered in the meantime. */
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

int policy_suggest(struct cli *c)
{
	buf_auto struct buf found = BUF_INIT, out = BUF_INIT;

	if (read_decisions(c, c->opts.args[1], &found) < 0)
		return EXIT_FAILED;
	const struct jval events = jval_of(found.data, found.len);
	if (cli_as_json(c)) {
		suggest_json(events, &out);
		return format_out(&out);
	}
	for (struct jiter it = jiter_on(events); jiter_next(&it);) {
		struct jval open = jval_path(it.value, "payload.wouldOpen");

		if (jval_is_str(jval_get(it.value, "type"), "permission.evaluated")) {
			suggest_rules(jval_get(it.value, "payload"), &out);
			continue;
		}
		/* What its sandbox lacked, as options of `bailiff run`. */
		advise_each(jval_get(open, "writeRoots"), "run --rw ", "", &out);
		advise_each(jval_get(open, "readRoots"), "run --ro ", "", &out);
		advise_each(jval_get(open, "allowHosts"), "run --net allow --allow-host ", "", &out);
	}
	if (!out.len)
		buf_str(&out, "# nothing was denied\n");
	return format_out(&out);
}
