#include "supervisor/cli/record.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/show.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void cell(struct show_table *t, struct jval element, const struct record_column *col, uint64_t now_us)
{
	buf_auto struct buf text = BUF_INIT;
	struct jval v = jval_path(element, col->path);
	enum show_colour colour = SHOW_PLAIN;
	size_t n = 0;

	switch (col->kind) {
	case RECORD_AGO:
		show_ago(v, now_us, &text);
		colour = SHOW_DIM;
		break;
	case RECORD_COUNT:
		for (struct jiter it = jiter_on(v); jiter_next(&it);)
			n++;
		buf_printf(&text, "%zu", n);
		break;
	case RECORD_WORD:
	case RECORD_ID:
	case RECORD_STATUS:
	case RECORD_TEXT:
		if (v.type == JT_STRING)
			jval_str_buf(v, &text);
		else if (v.type != JT_NONE)
			buf_append(&text, v.text, v.len);
		if (col->kind == RECORD_STATUS)
			colour = show_status_colour(buf_cstr(&text));
		for (char *p = text.data; p && *p; p++)
			if (*p == '\n' || *p == '\t')
				*p = ' ';
		break;
	}
	show_table_cell(t, text.len ? colour : SHOW_DIM, text.len ? text.data : "-");
}

int record_table(struct jval list, const struct record_column *columns, size_t n, bool as_json)
{
	const char *heads[SHOW_COLUMNS];
	buf_auto struct buf out = BUF_INIT;
	uint64_t now = clock_real_us();
	struct show_table t;

	if (as_json) {
		buf_append(&out, list.type == JT_ARRAY ? list.text : "[]", list.type == JT_ARRAY ? list.len : 2);
		buf_byte(&out, '\n');
		return show_out(&out);
	}
	for (size_t i = 0; i < n; i++)
		heads[i] = columns[i].head;
	show_table_init(&t, heads, n);
	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		for (size_t i = 0; i < n; i++)
			cell(&t, it.value, &columns[i], now);
	show_table_render(&t, show_coloured(STDOUT_FILENO), show_width(STDOUT_FILENO), &out);
	show_table_done(&t);
	return show_out(&out);
}

int record_call(struct cli *c, const char *method, const struct buf *params, const char *shown, bool as_json)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (cli_call(c, method, params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", c->verb->name);
	if (as_json) {
		buf_append(&out, a.result.text, a.result.len);
	} else if (shown) {
		struct jval v = jval_get(a.result, shown);

		if (v.type == JT_STRING)
			jval_str_buf(v, &out);
		else
			buf_append(&out, v.text, v.len);
	} else {
		show_json(a.result, 0, &out);
		return show_out(&out);
	}
	buf_byte(&out, '\n');
	return show_out(&out);
}

int record_dispatch(struct cli *c, const struct record_verb *of, size_t n)
{
	buf_auto struct buf names = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		buf_printf(&names, "%s%s", !i ? "" : i + 1 == n ? " or " : ", ", of[i].name);
		if (c->opts.nargs == 0 || strcmp(of[i].name, c->opts.args[0]) != 0)
			continue;
		if (c->opts.nargs - 1 < of[i].least || c->opts.nargs - 1 > of[i].most)
			return cli_usage(c, "%s takes %zu argument%s%s", of[i].name, of[i].least, of[i].least == 1 ? "" : "s",
					 of[i].most > of[i].least ? " or more" : "");
		return cli_connect(c, of[i].starts ? CLI_START_ALWAYS : CLI_START_IF_STORE) < 0 ? EXIT_FAILED : of[i].run(c);
	}
	return c->opts.nargs == 0 ? cli_usage(c, "%s?", buf_cstr(&names)) : cli_usage(c, "unknown verb '%s'", c->opts.args[0]);
}
