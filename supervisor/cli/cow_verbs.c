#include "supervisor/cli/cow_verbs.h"

#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/output_stream.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define PIECE (256u * 1024)

struct name_search {
	const char *name;
	char process[ID_LOOKUP_MAX];
	struct buf ids; /* of the sandboxes, one per line */
	size_t n;
};

static bool match_name(void *ctx, struct jval sandbox)
{
	struct name_search *s = ctx;
	char id[ID_LOOKUP_MAX];

	if (!jval_is_str(jval_get(sandbox, "name"), s->name) || !jval_bool(jval_get(sandbox, "cow"), false))
		return true;
	if (s->n++ == 0)
		jval_str(jval_get(sandbox, "processId"), s->process, sizeof(s->process));
	jval_str(jval_get(sandbox, "sandboxId"), id, sizeof(id));
	buf_printf(&s->ids, "%s%s", s->ids.len ? "\n  " : "", id);
	return true;
}

/* A closed copy-on-write sandbox that had the name. 1 = found, 0 = none, −1 = there are several: printed. */
static int find_closed(struct cli *c, const char *name, char ret[ID_LOOKUP_MAX])
{
	struct name_search s = { .name = name };
	buf_auto struct buf filter = BUF_INIT;
	struct err ignored = ERR_INIT;
	int found = 0;

	buf_str(&filter, "\"closed\":true");
	if (list_pages(c, "list_sandboxes", "sandboxes", &filter, match_name, &s, &ignored) < 0)
		s.n = 0; /* the search among processes fails in the same way, and says so */
	if (s.n == 1) {
		memcpy(ret, s.process, ID_LOOKUP_MAX);
		found = 1;
	} else if (s.n) {
		cli_error("%zu closed sandboxes had the name '%s'; name one by its id", s.n, name);
		cli_hint("%s", buf_cstr(&s.ids));
		found = -1;
	}
	buf_done(&s.ids);
	return found;
}

/* The holder of a session sandbox, open or closed. */
static int find_holder(struct cli *c, const char *sandbox, char ret[ID_LOOKUP_MAX], struct err *e)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "sandboxId", sandbox);
	if (request_read(c, &q, "get_sandbox") < 0) {
		*e = q.e;
		return -1;
	}
	jval_str(jval_get(q.result, "processId"), ret, ID_LOOKUP_MAX);
	return 0;
}

/* The process with the changes: that of the argument, or the holder of the session sandbox that it names. */
static int find_process(struct cli *c, char ret[ID_LOOKUP_MAX])
{
	const char *given = c->opts.nargs ? c->opts.args[0] : "@last";
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return -1;
	if (strncmp(given, "proc_", 5) == 0 || given[0] == '@')
		return id_lookup(c, ID_PROCESS, given, ret);
	if (find_holder(c, given, ret, &e) == 0)
		return 0;
	int found = find_closed(c, given, ret);
	if (found)
		return found < 0 ? -1 : 0;
	found = id_lookup_sandbox_or_process(c, given, id);
	if (found == ID_SANDBOX)
		return find_holder(c, id, ret, &e) < 0 ? cli_fail(c, -1, &e, "%s", id) : 0;
	memcpy(ret, id, sizeof(id));
	return found < 0 ? -1 : 0;
}

/*
 * Calls a method with the process and paths of the command line (relative to the working directory). 0, or an exit
 * status after printing the error.
 */
static int call_for_paths(struct cli *c, const char *method, struct request *q)
{
	char id[ID_LOOKUP_MAX];

	bool undo = strcmp(method, "undo_changes") == 0;

	if (undo && c->opts.nargs > 1)
		return cli_usage(c, "an apply is undone as a whole: no paths");
	if (!undo && c->opts.nargs < 1)
		return cli_usage(c, "which process?");
	if (find_process(c, id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q->w, "processId", id);
	if (c->opts.nargs > 1) {
		jw_karr(&q->w, "paths");
		for (size_t i = 1; i < c->opts.nargs; i++) {
			char path[PATH_MAX];

			if (file_option_absolute(c->opts.args[i], false, path, &q->e) < 0)
				return cli_fail(NULL, EXIT_FAILED, &q->e, "%s: path %zu", c->verb->name, i);
			jw_str(&q->w, path);
		}
		jw_arr_end(&q->w);
	}
	bool reads = strcmp(method, "list_changes") == 0;
	if ((reads ? request_read : request_change)(c, q, method) < 0)
		return cli_fail(c, EXIT_FAILED, &q->e, "%s", id);
	return 0;
}

/* One of the list's paths is the folder, or in it. */
static bool any_below(struct jval list, const char *folder)
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		mem_auto char *path = jval_strdup(jval_get(it.value, "path"));

		if (path && path_within(folder, path))
			return true;
	}
	return false;
}

/* Prints the PATHs of the command line that do not occur in a reply, and returns their number. */
static size_t print_unmatched(struct cli *c, struct jval result)
{
	struct err e = ERR_INIT;
	char path[PATH_MAX];
	size_t n = 0;

	for (size_t i = 1; i < c->opts.nargs; i++) {
		if (file_option_absolute(c->opts.args[i], false, path, &e) == 0 &&
		    (any_below(jval_get(result, "changes"), path) || any_below(jval_get(result, "conflicts"), path)))
			continue;
		cli_error("%s: no changes", c->opts.args[i]);
		n++;
	}
	if (n && strcmp(c->verb->key, "revert") == 0)
		cli_hint("bailiff wait %s lists the files", c->opts.args[0]);
	else if (n)
		cli_hint("bailiff diff %s shows the changes", c->opts.args[0]);
	return n;
}

/* ---- apply, undo, discard, revert ---- */

/* The paths that were settled, and those that were not. Conflicts and PATHs without changes are failures, so that
 * scripts notice them. */
static int settle_changes(struct cli *c, const char *method, const char *settled)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf out = BUF_INIT;
	size_t conflicts = 0, done = 0;
	int status = call_for_paths(c, method, &q);

	if (status)
		return status;
	for (struct jiter it = jiter_on(jval_get(q.result, "changes")); jiter_next(&it);) {
		char change[32];

		if (!jval_is_str(jval_get(it.value, "outcome"), settled))
			continue;
		done++;
		if (cli_as_json(c))
			continue;
		jval_str(jval_get(it.value, "change"), change, sizeof(change));
		buf_printf(&out, "%-9s %-9s ", settled, change);
		format_scalar(jval_get(it.value, "path"), &out);
		buf_byte(&out, '\n');
	}
	status = cli_as_json(c) ? format_record(q.result, true) : format_out(&out);
	size_t unmatched = print_unmatched(c, q.result);
	for (struct jiter it = jiter_on(jval_get(q.result, "conflicts")); jiter_next(&it); conflicts++) {
		mem_auto char *path = jval_strdup(jval_get(it.value, "path")),
			      *reason = jval_strdup(jval_get(it.value, "reason"));

		cli_error("conflict: %s: %s", path ? path : "", reason ? reason : "");
	}
	if (!done && !conflicts && !unmatched && !cli_as_json(c))
		cli_error("no changes left to be %s", settled);
	mem_auto char *lost = jval_strdup(jval_get(q.result, "undoLost"));
	if (lost)
		cli_hint("this apply cannot be undone: %s", lost);
	if (jval_bool(jval_get(q.result, "interrupted"), false))
		cli_hint("the apply was interrupted: only what it had changed until then can be undone");
	if (conflicts && strcmp(settled, "undone") == 0)
		cli_hint("%s", out.len ? "stopped; repeat it when the cause is fixed" : "nothing was undone");
	else if (conflicts && strcmp(settled, "reverted") == 0)
		cli_hint("%zu left unchanged; check them yourself", conflicts);
	else if (conflicts)
		cli_hint("%zu left unchanged; show them with bailiff diff, or delete them with bailiff discard",
			 conflicts);
	return conflicts || unmatched ? EXIT_FAILED : status;
}

int cmd_apply(struct cli *c) { return settle_changes(c, "apply_changes", "applied"); }

int cmd_undo(struct cli *c) { return settle_changes(c, "undo_changes", "undone"); }

int cmd_discard(struct cli *c) { return settle_changes(c, "discard_changes", "discarded"); }

int cmd_revert(struct cli *c) { return settle_changes(c, "revert_autorun", "reverted"); }

void cow_hint(struct cli *c, const char *process_id)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "processId", process_id);
	if (request_read(c, &q, "list_changes") < 0) {
		cli_error("changes: %s", q.e.message);
		return;
	}
	uint64_t n = jval_uint(jval_get(q.result, "total"), 0);
	if (n)
		cli_error("%llu %s not applied yet: bailiff diff|apply|discard %s", (unsigned long long)n,
			  n == 1 ? "change is" : "changes are", process_id);
	else
		cli_error("no changes");
}

/* ---- diff ---- */

/*
 * The diff of one change; empty if it has none. Only a run's first diffs are stored; later ones are computed on demand.
 */
static int read_diff(struct cli *c, struct jval process, struct jval change, struct buf *out, struct err *e)
{
	mem_auto char *ref = jval_strdup(jval_get(change, "diffRef"));
	struct output_piece piece = { 0 };
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf text = BUF_INIT;
	int r = 0;

	if (ref) {
		while (r == 0 && !piece.eof) {
			r = output_read(c, ref, piece.next, PIECE, &piece, e);
			buf_append(out, buf_cstr(&piece.bytes), piece.bytes.len);
		}
		buf_done(&piece.bytes);
		return r;
	}
	if (jval_is_str(jval_get(change, "type"), "directory") && !jval_is_str(jval_get(change, "change"), "modified"))
		return 0; /* a modified one may be in place of a file */
	struct jval path = jval_get(change, "path");
	jw_kraw(&q.w, "processId", process.text, process.len);
	jw_karr(&q.w, "paths");
	jw_raw(&q.w, path.text, path.len);
	jw_arr_end(&q.w);
	jw_kbool(&q.w, "diffs", true);
	if (request_read(c, &q, "list_changes") < 0) {
		*e = q.e;
		return -1;
	}
	struct jiter it = jiter_on(jval_get(q.result, "changes"));
	if (!jiter_next(&it))
		return 0;
	jval_str_buf(jval_get(it.value, "diff"), out);
	jval_str_buf(jval_get(it.value, "diffBase64"), &text);
	if (text.len && text_base64_decode(text.data, text.len, out) < 0)
		return err_set(e, ERR_INTERNAL, "the daemon's answer is not base64");
	return 0;
}

/* As git does it: headers bold, additions green, removals red. */
static enum format_colour colour_of(const char *line)
{
	if (strncmp(line, "diff ", 5) == 0 || strncmp(line, "+++", 3) == 0 || strncmp(line, "---", 3) == 0)
		return FORMAT_BOLD;
	return line[0] == '+'   ? FORMAT_GREEN
	       : line[0] == '-' ? FORMAT_RED
	       : line[0] == '@' ? FORMAT_CYAN
				: FORMAT_PLAIN;
}

/* Line by line on a terminal, because each line has its own colour. */
static void put_text(const struct buf *diff, bool terminal, bool coloured, struct buf *out)
{
	if (!terminal) {
		buf_append(out, diff->data, diff->len);
		return;
	}
	for (size_t at = 0; at < diff->len;) {
		buf_auto struct buf line = BUF_INIT;
		const char *p = diff->data + at, *nl = memchr(p, '\n', diff->len - at);
		size_t n = nl ? (size_t)(nl - p) : diff->len - at;

		text_sanitize(p, n, &line);
		format_paint(out, coloured, colour_of(buf_cstr(&line)), buf_cstr(&line));
		buf_byte(out, '\n');
		at += n + 1;
	}
}

/* One line for each change, as git does it: the path and how many lines were added and removed. */
static void put_stat(struct jval change, const struct buf *diff, struct buf *out, uint64_t sum[2])
{
	uint64_t n[2] = { 0 };
	bool body = false;

	for (size_t at = 0; at < diff->len;) {
		const char *line = diff->data + at, *nl = memchr(line, '\n', diff->len - at);

		body |= line[0] == '@'; /* the header has lines with +++ and --- */
		if (body && (line[0] == '+' || line[0] == '-'))
			n[line[0] == '-']++;
		at += nl ? (size_t)(nl - line) + 1 : diff->len - at;
	}
	buf_byte(out, ' ');
	format_scalar(jval_get(change, "path"), out);
	buf_str(out, " | ");
	if (!body) {
		format_scalar(jval_get(change, "change"), out);
		buf_byte(out, ' ');
		format_scalar(jval_get(change, "type"), out);
		buf_byte(out, '\n');
		return;
	}
	buf_printf(out, "+%llu -%llu\n", (unsigned long long)n[0], (unsigned long long)n[1]);
	sum[0] += n[0];
	sum[1] += n[1];
}

/*
 * Diffs go to a pipe unchanged, so that `bailiff diff P | git apply` works; on a terminal they are sanitised and
 * coloured. A change without a diff (a directory, or too long) becomes a comment, which patch and git skip.
 */
int cmd_diff(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	bool terminal = isatty(STDOUT_FILENO), coloured = format_coloured(STDOUT_FILENO);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t sum[2] = { 0 };
	size_t changes = 0;
	int status = call_for_paths(c, "list_changes", &q);

	if (status)
		return status;
	if (cli_as_json(c))
		return format_record(q.result, true);
	for (struct jiter it = jiter_on(jval_get(q.result, "changes")); jiter_next(&it);) {
		buf_auto struct buf diff = BUF_INIT;
		char kind[32], type[32];

		if (read_diff(c, jval_get(q.result, "processId"), it.value, &diff, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "diff");
		changes++;
		if (opts_has(&c->opts, OPT_diff_STAT)) {
			put_stat(it.value, &diff, &out, sum);
			continue;
		}
		if (diff.len) {
			put_text(&diff, terminal, coloured, &out);
			continue;
		}
		jval_str(jval_get(it.value, "change"), kind, sizeof(kind));
		jval_str(jval_get(it.value, "type"), type, sizeof(type));
		buf_printf(&out, "# %s %s ", kind, type);
		format_scalar(jval_get(it.value, "path"), &out);
		buf_byte(&out, '\n');
	}
	if (opts_has(&c->opts, OPT_diff_STAT))
		buf_printf(&out, " %zu changed, %llu lines added, %llu removed\n", changes, (unsigned long long)sum[0],
			   (unsigned long long)sum[1]);
	status = format_out(&out);
	return print_unmatched(c, q.result) ? EXIT_FAILED : status;
}
