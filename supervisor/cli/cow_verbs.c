#include "supervisor/cli/cow_verbs.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

/* Absolute and without "." and ".."; the file need not exist. */
static void clean_path(const char *path, struct buf *out)
{
	char here[PATH_MAX];
	size_t start = out->len;
	mem_auto char *whole = path[0] == '/' || !getcwd(here, sizeof(here)) ? mem_strdup(path)
									     : mem_printf("%s/%s", here, path);

	for (const char *p = whole; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.') {
			while (out->len > start && out->data[--out->len] != '/')
				;
		} else if (n && !(n == 1 && p[0] == '.')) {
			buf_byte(out, '/');
			buf_append(out, p, n);
		}
		p += n + (p[n] == '/');
	}
	if (out->len == start)
		buf_byte(out, '/');
	buf_append(out, "", 0);
}

static int write_paths(struct cli *c, struct jw *w)
{
	if (c->opts.nargs < 2)
		return 0;
	jw_karr(w, "paths");
	for (size_t i = 1; i < c->opts.nargs; i++) {
		buf_auto struct buf path = BUF_INIT;

		if (!text_utf8_valid(c->opts.args[i], strlen(c->opts.args[i])))
			return cli_usage(c, "path %zu is not UTF-8; name its directory instead", i);
		clean_path(c->opts.args[i], &path);
		jw_strn(w, path.data, path.len);
	}
	jw_arr_end(w);
	return 0;
}

/* list_changes only reads and takes no idempotency key. */
int cow_call(struct cli *c, const char *method, struct remote_answer *ret)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];
	int status;

	if (c->opts.nargs < 1)
		return cli_usage(c, "which process?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	status = write_paths(c, &w);
	if (status)
		return status;
	if (strcmp(method, "list_changes") != 0)
		remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, method, &params, ret, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return 0;
}

static bool is_below(const char *path, const struct buf *folder)
{
	return strncmp(path, folder->data, folder->len) == 0 &&
	       (!path[folder->len] || path[folder->len] == '/' || folder->len == 1);
}

static bool any_below(struct jval list, const struct buf *folder)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		mem_auto char *path = jval_strdup(jval_get(it.value, "path"));

		if (path && is_below(path, folder))
			return true;
	}
	return false;
}

size_t cow_unmatched(struct cli *c, struct jval result)
{
	size_t n = 0;

	for (size_t i = 1; i < c->opts.nargs; i++) {
		buf_auto struct buf path = BUF_INIT;

		clean_path(c->opts.args[i], &path);
		if (any_below(jval_get(result, "changes"), &path) || any_below(jval_get(result, "conflicts"), &path))
			continue;
		cli_error("%s: no changes", c->opts.args[i]);
		n++;
	}
	if (n)
		cli_hint("bailiff diff %s shows the changes", c->opts.args[0]);
	return n;
}

static void print_settled(struct jval result, const char *settled, struct buf *out)
{
	for (struct jiter it = jiter_on(jval_get(result, "changes")); jiter_next(&it);) {
		buf_auto struct buf path = BUF_INIT;
		char change[32];

		if (!jval_is_str(jval_get(it.value, "outcome"), settled))
			continue;
		jval_str(jval_get(it.value, "change"), change, sizeof(change));
		jval_str_buf(jval_get(it.value, "path"), &path);
		buf_printf(out, "%-9s %-9s ", settled, change);
		text_sanitize_line(buf_cstr(&path), path.len, out);
		buf_byte(out, '\n');
	}
}

static bool has_elements(struct jval list)
{
	struct jiter it = jiter_on(list);

	return jiter_next(&it);
}

/* Conflicts and PATHs without changes are failures, so that scripts notice them. */
int cow_settle(struct cli *c, const char *method, const char *settled)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;
	size_t conflicts = 0;
	int status = cow_call(c, method, &a);

	if (status)
		return status;
	unsigned json = strcmp(settled, "applied") == 0    ? OPT_apply_JSON
			: strcmp(settled, "reverted") == 0 ? OPT_revert_JSON
							   : OPT_discard_JSON;
	if (opts_has(&c->opts, json)) {
		buf_append(&out, a.result.text, a.result.len);
		buf_byte(&out, '\n');
	} else {
		print_settled(a.result, settled, &out);
	}
	size_t unmatched = cow_unmatched(c, a.result);
	bool none = c->opts.nargs < 2 && !has_elements(jval_get(a.result, "changes")) &&
		    !has_elements(jval_get(a.result, "conflicts"));
	if (none && !out.len)
		cli_error("no changes left to be %s", settled);
	status = format_out(&out);
	for (struct jiter it = jiter_on(jval_get(a.result, "conflicts")); jiter_next(&it); conflicts++) {
		mem_auto char *path = jval_strdup(jval_get(it.value, "path")),
			      *reason = jval_strdup(jval_get(it.value, "reason"));

		cli_error("conflict: %s: %s", path ? path : "", reason ? reason : "");
	}
	if (conflicts && strcmp(settled, "reverted") == 0)
		cli_hint("%zu left unchanged; check them yourself", conflicts);
	else if (conflicts)
		cli_hint("%zu left unchanged; show them with bailiff diff, or delete them with bailiff discard",
			 conflicts);
	return conflicts || unmatched ? EXIT_FAILED : status;
}

void cow_hint(struct cli *c, const char *process_id)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstr(&w, "processId", process_id);
	jw_obj_end(&w);
	if (cli_call(c, "list_changes", &params, &a, &e) < 0) {
		cli_error("changes: %s", e.message);
		return;
	}
	uint64_t n = jval_uint(jval_get(a.result, "total"), 0);
	if (n)
		cli_error("%llu %s not applied yet: bailiff diff|apply|discard %s", (unsigned long long)n,
			  n == 1 ? "change is" : "changes are", process_id);
	else
		cli_error("no changes");
}
