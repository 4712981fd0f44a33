/*
 * Diffs go to a pipe unchanged, so that `bailiff diff P | git apply` works; on a terminal they are sanitised and
 * coloured.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/cow_verbs.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/remote.h"

#include <string.h>
#include <unistd.h>

#define PIECE (256u * 1024)

/* Reads one piece of an output; *ret_eof is set at its end. */
static int read_piece(struct cli *c, const char *ref, uint64_t *offset, bool *ret_eof, struct buf *out, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, text = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "outputRef", ref);
	jw_kuint(&w, "offset", *offset);
	jw_kuint(&w, "length", PIECE);
	jw_kstr(&w, "encoding", "base64");
	jw_obj_end(&w);
	if (cli_call(c, "read_output", &params, &a, e) < 0)
		return -1;
	jval_str_buf(jval_get(a.result, "data"), &text);
	if (text_base64_decode(buf_cstr(&text), text.len, out) < 0)
		return err_set(e, ERR_INTERNAL, "the daemon's answer is not base64");
	uint64_t next = jval_uint(jval_get(a.result, "nextOffset"), *offset);
	*ret_eof = jval_bool(jval_get(a.result, "eof"), true) || next <= *offset;
	*offset = next;
	return 0;
}

static int read_diff(struct cli *c, const char *ref, struct buf *out, struct err *e)
{
	uint64_t offset = 0;
	bool eof = false;

	while (!eof)
		if (read_piece(c, ref, &offset, &eof, out, e) < 0)
			return -1;
	return 0;
}

/* Only a run's first diffs are stored; later ones are computed on demand. */
static int make_diff(struct cli *c, struct jval process, struct jval path, struct buf *out, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, text = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kraw(&w, "processId", process.text, process.len);
	jw_karr(&w, "paths");
	jw_raw(&w, path.text, path.len);
	jw_arr_end(&w);
	jw_kbool(&w, "diffs", true);
	jw_obj_end(&w);
	if (cli_call(c, "list_changes", &params, &a, e) < 0)
		return -1;
	struct jiter it = jiter_on(jval_get(a.result, "changes"));
	if (!jiter_next(&it))
		return 0;
	jval_str_buf(jval_get(it.value, "diff"), out);
	jval_str_buf(jval_get(it.value, "diffBase64"), &text);
	if (text.len && text_base64_decode(text.data, text.len, out) < 0)
		return err_set(e, ERR_INTERNAL, "the daemon's answer is not base64");
	return 0;
}

static enum format_colour colour_of(const char *line)
{
	if (strncmp(line, "diff ", 5) == 0 || strncmp(line, "+++", 3) == 0 || strncmp(line, "---", 3) == 0)
		return FORMAT_BOLD;
	return line[0] == '+'   ? FORMAT_GREEN
	       : line[0] == '-' ? FORMAT_RED
	       : line[0] == '@' ? FORMAT_CYAN
				: FORMAT_PLAIN;
}

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

/* A change without a diff (a directory, or too long) becomes a comment, which patch and git skip. */
static void put_plain(struct jval change, struct buf *out)
{
	buf_auto struct buf path = BUF_INIT;
	char kind[32], type[32];

	jval_str(jval_get(change, "change"), kind, sizeof(kind));
	jval_str(jval_get(change, "type"), type, sizeof(type));
	jval_str_buf(jval_get(change, "path"), &path);
	buf_printf(out, "# %s %s ", kind, type);
	text_sanitize_line(buf_cstr(&path), path.len, out);
	buf_byte(out, '\n');
}

int cmd_diff(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	bool terminal = isatty(STDOUT_FILENO), coloured = format_coloured(STDOUT_FILENO);
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	int status = cow_call(c, "list_changes", &a);

	if (status)
		return status;
	if (opts_has(&c->opts, OPT_diff_JSON)) {
		buf_append(&out, a.result.text, a.result.len);
		buf_byte(&out, '\n');
		return format_out(&out);
	}
	for (struct jiter it = jiter_on(jval_get(a.result, "changes")); jiter_next(&it);) {
		mem_auto char *ref = jval_strdup(jval_get(it.value, "diffRef"));
		buf_auto struct buf diff = BUF_INIT;

		bool folder = jval_is_str(jval_get(it.value, "type"), "directory");
		int r = ref      ? read_diff(c, ref, &diff, &e)
			: folder ? 0
				 : make_diff(c, jval_get(a.result, "processId"), jval_get(it.value, "path"), &diff, &e);
		if (r < 0)
			return cli_fail(c, EXIT_FAILED, &e, "diff");
		if (diff.len)
			put_text(&diff, terminal, coloured, &out);
		else
			put_plain(it.value, &out);
	}
	status = format_out(&out);
	return cow_unmatched(c, a.result) ? EXIT_FAILED : status;
}
