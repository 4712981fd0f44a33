/* `sandbox`: session sandboxes, the available profiles, the sandbox that a profile gives, and the one that a process
 * had. */

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"
#include "supervisor/cli/published_ports.h"
#include "supervisor/cli/sandbox_options.h"

#include <unistd.h>

#define NOT_FOUND (-32004)

/* "name  value": a scalar, the elements of an array, or the members of an object. An empty list is "none". */
static void print_line(const char *name, struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	bool list = v.type == JT_ARRAY || v.type == JT_OBJECT;

	if (v.type == JT_STRING)
		jval_str_buf(v, &text);
	else if (!list)
		buf_append(&text, v.text, v.len);
	for (struct jiter it = jiter_on(v); jiter_next(&it);) {
		if (text.len)
			buf_str(&text, it.object ? ", " : " ");
		jval_str_buf(it.key, &text);
		buf_str(&text, it.object ? " " : "");
		if (it.value.type == JT_STRING)
			jval_str_buf(it.value, &text);
		else
			buf_append(&text, it.value.text, it.value.len);
	}
	if (!text.len && list)
		buf_str(&text, "none");
	buf_printf(out, "%-11s", name);
	text_sanitize_line(buf_cstr(&text), text.len, out);
	buf_byte(out, '\n');
}

/* The line is left out if there is no such member. */
static void print_member(const char *name, struct jval object, const char *member, struct buf *out)
{
	if (jval_get(object, member).type != JT_NONE)
		print_line(name, jval_get(object, member), out);
}

static void show_head(struct jval profile, struct buf *out)
{
	static const struct jval none = { .type = JT_ARRAY, .text = "[]", .len = 2 };

	print_member("profile", profile, "mode", out);
	print_member("cwd", profile, "cwd", out);
	print_member("workspace", profile, "workspace", out);
	print_member("network", profile, "network", out);
	if (jval_is_str(jval_get(profile, "network"), "allow")) {
		struct jval allowed = jval_get(profile, "allowedHosts"), denied = jval_get(profile, "deniedHosts");

		print_line("allowed", allowed.type == JT_NONE ? none : allowed, out);
		print_line("denied", denied.type == JT_NONE ? none : denied, out);
	}
	print_member("limits", profile, "processLimits", out);
	print_member("note", profile, "hiddenNote", out);
}

/* What can be read, written and not be seen, in the order in which it is mounted. */
static void show_mounts(struct jval mounts, struct buf *out)
{
	static const char *const heads[] = { "KIND", "PATH", "" };
	struct format_table t;

	format_table_init(&t, heads, 3);
	for (struct jiter it = jiter_on(mounts); jiter_next(&it);) {
		buf_auto struct buf path = BUF_INIT;
		char kind[16];

		jval_str(jval_get(it.value, "kind"), kind, sizeof(kind));
		jval_str_buf(jval_get(it.value, "path"), &path);
		format_table_cell(&t, strcmp(kind, "write") == 0 ? FORMAT_YELLOW : FORMAT_PLAIN, kind);
		format_table_cell(&t, FORMAT_PLAIN, buf_cstr(&path));
		format_table_cell(&t, FORMAT_DIM,
				  jval_bool(jval_get(it.value, "optional"), false) ? "if it is there" : "");
	}
	buf_byte(out, '\n');
	format_table_finish(&t, out);
}

/* With --json the result itself, else as `text` writes it. */
static int print_sandbox(struct cli *c, struct jval result, void (*text)(struct jval result, struct buf *out))
{
	buf_auto struct buf out = BUF_INIT;

	if (cli_as_json(c))
		return format_record(result, true);
	text(result, &out);
	return format_out(&out);
}

/* The layers in effect, and those without which the profile refuses to run a command. */
static void profile_text(struct jval result, struct buf *out)
{
	show_head(jval_get(result, "sandboxProfile"), out);
	if (!jval_bool(jval_get(result, "confined"), true)) {
		buf_str(out, "\nno sandbox: the command runs as you, with all your permissions\n");
		return;
	}
	print_member("layers", result, "layers", out);
	print_member("required", result, "require", out);
	show_mounts(jval_get(result, "mounts"), out);
}

/* For a process: the sandbox that was applied, and which layers were in effect. */
static void applied_text(struct jval payload, struct buf *out)
{
	static const struct {
		const char *list, *kind;
	} roots[] = {
		{ "readRoots", "read" },    { "writeRoots", "write" }, { "private", "empty" },
		{ "protected", "protect" }, { "hidden", "hide" },
	};
	struct jval profile = jval_get(payload, "sandboxProfile");
	buf_auto struct buf mounts = BUF_INIT;
	struct jw w = jw_on(&mounts);

	show_head(profile, out);
	print_member("layers", payload, "layers", out);
	print_member("violations", payload, "violations", out);
	print_member("plan", payload, "planHash", out);
	jw_arr(&w);
	for (size_t i = 0; i < countof(roots); i++)
		for (struct jiter it = jiter_on(jval_get(profile, roots[i].list)); jiter_next(&it);) {
			jw_obj(&w);
			jw_kstr(&w, "kind", roots[i].kind);
			jw_kraw(&w, "path", it.value.text, it.value.len);
			jw_obj_end(&w);
		}
	jw_arr_end(&w);
	show_mounts(jval_of(mounts.data, mounts.len), out);
}

/* The sandbox is in the event of its start; the profile may have changed since then. */
static int show_process(struct cli *c, const char *given)
{
	static const char *const types[] = { "sandbox.applied" };
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];

	if (id_lookup(c, ID_PROCESS, given, id) < 0) {
		cli_hint("bailiff sandbox list -a shows the profiles and the session sandboxes");
		return EXIT_FAILED;
	}
	jw_kstr(&q.w, "processId", id);
	jw_kstrv(&q.w, "types", types, 1);
	if (request_read(c, &q, "list_events") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "%s", id);
	struct jiter it = jiter_on(jval_get(q.result, "events"));
	if (!jiter_next(&it)) {
		cli_error("%s: no sandbox was applied", id);
		return EXIT_FAILED;
	}
	return print_sandbox(c, jval_get(it.value, "payload"), applied_text);
}

/* The default profile is bold. */
static void list_text(struct jval result, struct buf *out)
{
	static const char *const heads[] = { "PROFILE", "FROM", "SUMMARY" };
	struct format_table t;

	format_table_init(&t, heads, 3);
	for (struct jiter it = jiter_on(jval_get(result, "profiles")); jiter_next(&it);) {
		char name[64], from[32], summary[256];

		jval_str(jval_get(it.value, "name"), name, sizeof(name));
		jval_str(jval_get(it.value, "from"), from, sizeof(from));
		jval_str(jval_get(it.value, "summary"), summary, sizeof(summary));
		format_table_cell(
			&t, jval_is_str(jval_get(result, "defaultProfile"), name) ? FORMAT_BOLD : FORMAT_PLAIN, name);
		format_table_cell(&t, FORMAT_PLAIN, from);
		format_table_cell(&t, FORMAT_DIM, summary);
	}
	format_table_finish(&t, out);
}

/* ---- session sandboxes ---- */

static bool collect_element(void *ctx, struct jval element)
{
	jw_raw(ctx, element.text, element.len);
	return true;
}

/* With --json the sandboxes and the profiles; else a table of each, the first only if there is a sandbox. */
static int list_sandboxes(struct cli *c, struct jval profiles)
{
	buf_auto struct buf all = BUF_INIT, filter = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&all), f = jw_on(&filter), o = jw_on(&out);
	struct err e = ERR_INIT;

	if (opts_has(&c->opts, OPT_sandbox_ALL))
		jw_kbool(&f, "closed", true);
	if (id_lookup_option(c, OPT_sandbox_SESSION, ID_SESSION, "sessionId", &f) < 0)
		return EXIT_FAILED;
	jw_arr(&w);
	if (list_pages(c, "list_sandboxes", "sandboxes", &filter, collect_element, &w, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "sandbox list");
	jw_arr_end(&w);
	if (cli_as_json(c)) {
		struct jval byDefault = jval_get(profiles, "defaultProfile"), list = jval_get(profiles, "profiles");

		jw_obj(&o);
		jw_kraw(&o, "sandboxes", all.data, all.len);
		jw_kraw(&o, "defaultProfile", byDefault.text, byDefault.len);
		jw_kraw(&o, "profiles", list.text, list.len);
		jw_obj_end(&o);
		return format_record(jval_of(out.data, out.len), true);
	}
	if (strcmp(all.data, "[]") != 0) {
		int status = format_columns("SANDBOX=sandboxId NAME=name STATUS=status:status PROFILE=profile "
					    "RUNNING=processes:count CREATED=createdAt:ago USED=lastUsedAt:ago",
					    jval_of(all.data, all.len), false);
		if (status)
			return status;
		buf_byte(&out, '\n');
	}
	list_text(profiles, &out);
	return format_out(&out);
}

static void session_text(struct jval result, struct buf *out)
{
	print_member("sandbox", result, "sandboxId", out);
	print_member("name", result, "name", out);
	print_member("status", result, "status", out);
	print_member("reason", result, "reason", out);
	print_member("holder", result, "processId", out);
	print_member("session", result, "sessionId", out);
	print_member("created", result, "createdAt", out);
	print_member("used", result, "lastUsedAt", out);
	print_member("closed", result, "closedAt", out);
	print_member("idle ms", result, "idleMs", out);
	print_member("running", result, "processes", out);
	print_member("forked", result, "forkedFrom", out);
	for (struct jiter it = jiter_on(jval_get(result, "checkpoints")); jiter_next(&it);) {
		buf_auto struct buf line = BUF_INIT;

		jval_str_buf(jval_get(it.value, "checkpointId"), &line);
		buf_str(&line, "  ");
		jval_str_buf(jval_get(it.value, "createdAt"), &line);
		buf_str(&line, "  ");
		jval_str_buf(jval_get(it.value, "name"), &line);
		buf_str(out, "checkpoint ");
		text_sanitize_line(line.data, line.len, out);
		buf_byte(out, '\n');
	}
	applied_text(result, out);
}

#define SHOW_OPTIONS "cwd ro rw hide net allow-host tmp-size"

/* 1: there is no such session sandbox. */
static int show_session_sandbox(struct cli *c, const char *given)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "sandboxId", given);
	if (request_read(c, &q, "get_sandbox") < 0)
		return 1;
	/* They describe what another sandbox would be; this one stays as it is. */
	if (noun_first_given(c, SHOW_OPTIONS))
		return cli_usage(c, "option '--%s': '%s' is a session sandbox, which it cannot change; name a profile",
				 noun_first_given(c, SHOW_OPTIONS), given);
	return print_sandbox(c, q.result, session_text) ? EXIT_FAILED : 0;
}

static int create_sandbox(struct cli *c)
{
	static const struct sandbox_options options = SANDBOX_OPTIONS(sandbox);
	static const struct limit_option limits[] = { TREE_LIMIT_OPTIONS(sandbox) };
	const struct opts *o = &c->opts;
	const char *idle = opts_get(o, OPT_sandbox_IDLE);
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	uint64_t ms;

	if (published_ports_write(o, OPT_sandbox_PUBLISH, &q.w, &q.e) < 0 ||
	    sandbox_options_write(o, &options, &q.w, &q.e) < 0 ||
	    limit_options_write(o, limits, countof(limits), &q.w, &q.e) < 0)
		return cli_usage(c, "%s", q.e.message);
	if (idle && text_duration_ms(idle, &ms, &q.e) < 0)
		return cli_usage(c, "option '--idle': %s", q.e.message);
	if (idle)
		jw_kuint(&q.w, "idleMs", ms);
	jw_kopt(&q.w, "name", opts_get(o, OPT_sandbox_NAME));
	if (opts_has(o, OPT_sandbox_COW))
		jw_kbool(&q.w, "cow", true);
	if (cli_connect(c, CLI_START_ALWAYS) < 0 ||
	    id_lookup_option(c, OPT_sandbox_SESSION, ID_SESSION, "sessionId", &q.w) < 0)
		return EXIT_FAILED;
	if (request_change(c, &q, "create_sandbox") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "sandbox create");
	if (cli_as_json(c))
		return format_record(q.result, true);
	format_scalar(jval_get(q.result, "sandboxId"), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

/* Prints what its end terminated. */
static int close_sandbox(struct cli *c, const char *given)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup(c, ID_SANDBOX, given, id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "sandboxId", id);
	if (request_change(c, &q, "close_sandbox") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "sandbox close");
	if (cli_as_json(c))
		return format_record(q.result, true);
	for (struct jiter it = jiter_on(jval_get(q.result, "running")); jiter_next(&it);) {
		buf_str(&out, "terminated ");
		format_scalar(jval_get(it.value, "processId"), &out);
		buf_str(&out, "  ");
		format_scalar(jval_get(it.value, "command"), &out);
		buf_byte(&out, '\n');
	}
	if (jval_bool(jval_get(q.result, "cow"), false))
		cli_hint("bailiff diff %s shows what it changed; apply or discard it", id);
	return format_out(&out);
}

static int close_sandboxes(struct cli *c)
{
	int status = 0;

	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	for (size_t i = 1; i < c->opts.nargs; i++)
		if (close_sandbox(c, c->opts.args[i]) != 0)
			status = EXIT_FAILED;
	return status;
}

/* Prints the new checkpoint or sandbox; for a restore, what is lost. The second argument is the checkpoint. */
static int copy_sandbox(struct cli *c, const char *what)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT, lost = BUF_INIT;
	bool forks = strcmp(what, "fork") == 0;
	mem_auto char *method = mem_printf("%s_sandbox", what);
	char id[ID_LOOKUP_MAX];

	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup(c, ID_SANDBOX, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "sandboxId", id);
	if (c->opts.nargs > 2)
		jw_kstr(&q.w, "checkpoint", c->opts.args[2]);
	if (forks)
		jw_kopt(&q.w, "name", opts_get(&c->opts, OPT_sandbox_NAME));
	if (request_change(c, &q, method) < 0) {
		if (strcmp(q.e.field, "checkpoint") == 0)
			snprintf(c->advice, sizeof(c->advice), "bailiff sandbox show %.80s lists its checkpoints", id);
		return cli_fail(c, EXIT_FAILED, &q.e, "sandbox %s", what);
	}
	if (cli_as_json(c))
		return format_record(q.result, true);
	for (struct jiter it = jiter_on(jval_get(q.result, "lost")); jiter_next(&it);) {
		buf_str(&lost, lost.len ? ", " : "");
		jval_str_buf(it.value, &lost);
	}
	if (lost.len)
		cli_error("restored; what was in %s is lost", buf_cstr(&lost));
	format_scalar(jval_get(q.result, forks ? "sandboxId" : "checkpointId"), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

/* `list`, or `show` of a name that is not a session sandbox's. */
static int show_profile(struct cli *c, const char *name)
{
	static const struct sandbox_options options = {
		-1,
		OPT_sandbox_CWD,
		OPT_sandbox_RO,
		OPT_sandbox_RW,
		OPT_sandbox_HIDE,
		OPT_sandbox_NET,
		OPT_sandbox_ALLOW_HOST,
		OPT_sandbox_TMP_SIZE,
		false,
	};
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX], reason[32];

	if (sandbox_options_write(&c->opts, &options, &q.w, &q.e) < 0)
		return cli_usage(c, "%s", q.e.message), EXIT_FAILED;
	/* Every reply has the list of names; profile host is valid in every directory. */
	jw_kstr(&q.w, "profile", name ? name : "host");
	if (request_read(c, &q, "get_sandbox") == 0)
		return name ? print_sandbox(c, q.result, profile_text) : list_sandboxes(c, q.result);
	/* A name that is not a profile may be a closed sandbox, or a process. */
	if (name && id_lookup_closed_sandbox(c, name, id, reason))
		return show_session_sandbox(c, id);
	if (name && jval_int(jval_get(q.answer.error, "code"), 0) == NOT_FOUND)
		return show_process(c, name);
	return cli_fail(c, EXIT_FAILED, &q.e, "sandbox");
}

/* The subverbs, with the names of their options. */
static const struct {
	const char *name, *options;
	size_t least, most; /* arguments, with its name */
} sandbox_verbs[] = {
	{ "create",
	  SANDBOX_OPTION_NAMES " name cow idle session memory memory-high pids cpus io-weight io-read io-write publish",
	  1, 1 },
	{ "list", "all session", 1, 1 },
	{ "show", SHOW_OPTIONS, 2, 2 },
	{ "close", "", 2, SIZE_MAX },
	{ "checkpoint", "", 2, 3 },
	{ "restore", "", 2, 3 },
	{ "fork", "name", 2, 3 },
};

/* A verb that is missing or unknown, or one with the wrong arguments or options. */
static int check_usage(struct cli *c, const char *what)
{
	if (!what[0])
		return cli_usage(c, "missing verb: create, list, show, close, checkpoint, restore or fork");
	for (size_t i = 0; i < countof(sandbox_verbs); i++) {
		if (strcmp(what, sandbox_verbs[i].name) != 0)
			continue;
		if (c->opts.nargs < sandbox_verbs[i].least)
			return cli_usage(c, "%s: which sandbox?", what);
		if (c->opts.nargs > sandbox_verbs[i].most)
			return cli_usage(c, "%s: unexpected argument '%s'", what, c->opts.args[sandbox_verbs[i].most]);
		return noun_check_options(c, what, sandbox_verbs[i].options);
	}
	return cli_usage(c, "unknown verb '%s'", what);
}

int cmd_sandbox(struct cli *c)
{
	const struct opts *o = &c->opts;
	const char *what = o->nargs ? o->args[0] : "";
	int status = check_usage(c, what);

	if (status)
		return status;
	if (strcmp(what, "create") == 0)
		return create_sandbox(c);
	if (strcmp(what, "close") == 0)
		return close_sandboxes(c);
	if (strcmp(what, "list") != 0 && strcmp(what, "show") != 0)
		return copy_sandbox(c, what);
	if (cli_connect(c, CLI_START_ALWAYS) < 0)
		return EXIT_FAILED;
	if (o->nargs == 1)
		return show_profile(c, NULL);
	status = show_session_sandbox(c, o->args[1]);
	return status == 1 ? show_profile(c, o->args[1]) : status;
}
