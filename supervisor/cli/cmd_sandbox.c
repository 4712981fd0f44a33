#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/sandbox_options.h"
#include "supervisor/client/remote.h"

#include <string.h>
#include <unistd.h>

#define NOT_FOUND (-32004)

static const struct sandbox_options place = {
	-1,
	OPT_sandbox_CWD,
	OPT_sandbox_RO,
	OPT_sandbox_RW,
	OPT_sandbox_HIDE,
	OPT_sandbox_NET,
	OPT_sandbox_ALLOW_HOST,
	OPT_sandbox_TMP_SIZE,
};

static void print_line(const char *name, struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	if (v.type == JT_NONE)
		return;
	if (v.type == JT_STRING)
		jval_str_buf(v, &text);
	else
		buf_append(&text, v.text, v.len);
	buf_printf(out, "%-11s", name);
	text_sanitize_line(buf_cstr(&text), text.len, out);
	buf_byte(out, '\n');
}

static void print_words(const char *name, struct jval list, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		buf_str(&text, text.len ? " " : "");
		jval_str_buf(it.value, &text);
	}
	buf_printf(out, "%-11s", name);
	text_sanitize_line(text.len ? text.data : "none", text.len ? text.len : 4, out);
	buf_byte(out, '\n');
}

static void print_pairs(const char *name, struct jval object, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	for (struct jiter it = jiter_on(object); jiter_next(&it);) {
		buf_str(&text, text.len ? ", " : "");
		jval_str_buf(it.key, &text);
		buf_byte(&text, ' ');
		if (it.value.type == JT_STRING)
			jval_str_buf(it.value, &text);
		else
			buf_append(&text, it.value.text, it.value.len);
	}
	buf_printf(out, "%-11s", name);
	text_sanitize_line(text.len ? text.data : "none", text.len ? text.len : 4, out);
	buf_byte(out, '\n');
}

static void show_head(struct jval profile, struct buf *out)
{
	print_line("profile", jval_get(profile, "mode"), out);
	print_line("cwd", jval_get(profile, "cwd"), out);
	print_line("workspace", jval_get(profile, "workspace"), out);
	print_line("network", jval_get(profile, "network"), out);
	if (jval_is_str(jval_get(profile, "network"), "allow")) {
		print_words("allowed", jval_get(profile, "allowedHosts"), out);
		print_words("denied", jval_get(profile, "deniedHosts"), out);
	}
	print_pairs("limits", jval_get(profile, "processLimits"), out);
}

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
	format_table_render(&t, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), out);
	format_table_done(&t);
}

static int print_sandbox(struct cli *c, struct jval result, void (*text)(struct jval result, struct buf *out))
{
	buf_auto struct buf out = BUF_INIT;

	if (opts_has(&c->opts, OPT_sandbox_JSON)) {
		buf_append(&out, result.text, result.len);
		buf_byte(&out, '\n');
	} else {
		text(result, &out);
	}
	return format_out(&out);
}

static void profile_text(struct jval result, struct buf *out)
{
	show_head(jval_get(result, "sandboxProfile"), out);
	if (!jval_bool(jval_get(result, "confined"), true)) {
		buf_str(out, "\nno sandbox: the command runs as you, with all that you may do\n");
		return;
	}
	print_words("layers", jval_get(result, "layers"), out);
	print_words("required", jval_get(result, "require"), out);
	show_mounts(jval_get(result, "mounts"), out);
}

static const struct {
	const char *list, *kind;
} roots[] = {
	{ "readRoots", "read" },    { "writeRoots", "write" }, { "private", "empty" },
	{ "protected", "protect" }, { "hidden", "hide" },
};

/* For a process: the sandbox that was applied, and which layers were in effect. */
static void applied_text(struct jval payload, struct buf *out)
{
	struct jval profile = jval_get(payload, "sandboxProfile");
	buf_auto struct buf mounts = BUF_INIT;
	struct jw w = jw_on(&mounts);

	show_head(profile, out);
	print_pairs("layers", jval_get(payload, "layers"), out);
	print_line("violations", jval_get(payload, "violations"), out);
	print_line("plan", jval_get(payload, "planHash"), out);
	jw_arr(&w);
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++)
		for (struct jiter it = jiter_on(jval_get(profile, roots[i].list)); jiter_next(&it);) {
			jw_obj(&w);
			jw_kstr(&w, "kind", roots[i].kind);
			jw_kraw(&w, "path", it.value.text, it.value.len);
			jw_obj_end(&w);
		}
	jw_arr_end(&w);
	show_mounts(jval_of(mounts.data, mounts.len), out);
}

static int show_process(struct cli *c, const char *given)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	static const char *const types[] = { "sandbox.applied" };
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_process(c, given, id) < 0) {
		cli_hint("bailiff sandbox list shows the profiles");
		return EXIT_FAILED;
	}
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_kstrv(&w, "types", types, 1);
	jw_obj_end(&w);
	if (cli_call(c, "list_events", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	struct jiter it = jiter_on(jval_get(a.result, "events"));
	if (!jiter_next(&it)) {
		cli_error("%s: no sandbox was applied", id);
		return EXIT_FAILED;
	}
	return print_sandbox(c, jval_get(it.value, "payload"), applied_text);
}

/* profile NULL: the default. 1: there is no profile of that name. */
static int request_sandbox(struct cli *c, const char *profile, struct remote_answer *a)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	if (sandbox_options_write(&c->opts, &place, &w, &e) < 0)
		return cli_usage(c, "%s", e.message), -1;
	jw_kopt(&w, "profile", profile);
	jw_obj_end(&w);
	if (cli_call(c, "get_sandbox", &params, a, &e) == 0)
		return 0;
	if (profile && a->error.type != JT_NONE && jval_int(jval_get(a->error, "code"), 0) == NOT_FOUND)
		return 1;
	cli_fail(c, 0, &e, "sandbox");
	return -1;
}

static int sandbox_show(struct cli *c, const char *name)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	int r = request_sandbox(c, name, &a);

	if (r > 0)
		return show_process(c, name);
	return r < 0 ? EXIT_FAILED : print_sandbox(c, a.result, profile_text);
}

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
	format_table_render(&t, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), out);
	format_table_done(&t);
}

static int sandbox_list(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;

	/* Every reply has the list of names; profile host is valid in every directory. */
	return request_sandbox(c, "host", &a) != 0 ? EXIT_FAILED : print_sandbox(c, a.result, list_text);
}

int cmd_sandbox(struct cli *c)
{
	const struct opts *o = &c->opts;

	if (o->nargs == 1 && strcmp(o->args[0], "list") == 0)
		return cli_connect(c, CLI_START_ALWAYS) < 0 ? EXIT_FAILED : sandbox_list(c);
	if (o->nargs == 2 && strcmp(o->args[0], "show") == 0)
		return cli_connect(c, CLI_START_ALWAYS) < 0 ? EXIT_FAILED : sandbox_show(c, o->args[1]);
	return cli_usage(c, o->nargs ? "expected list, or show and a name" : "list or show?");
}
