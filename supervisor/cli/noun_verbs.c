#include "supervisor/cli/noun_verbs.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void write_cell(struct format_table *t, struct jval element, const struct noun_verb_column *col, uint64_t now_us)
{
	buf_auto struct buf text = BUF_INIT;
	struct jval v = jval_path(element, col->path);
	enum format_colour colour = FORMAT_PLAIN;
	size_t n = 0;

	if (v.type == JT_NONE && col->other && col->kind != COLUMN_IF)
		v = jval_path(element, col->other);
	switch (col->kind) {
	case COLUMN_LEFT:
		format_left(v, now_us, &text);
		colour = FORMAT_DIM;
		break;
	case COLUMN_IF:
		if (jval_bool(v, false))
			buf_str(&text, col->other);
		colour = FORMAT_RED;
		break;
	case COLUMN_AGO:
		format_ago(v, now_us, &text);
		colour = FORMAT_DIM;
		break;
	case COLUMN_COUNT:
		for (struct jiter it = jiter_on(v); jiter_next(&it);)
			n++;
		buf_printf(&text, "%zu", n);
		break;
	case COLUMN_WORD:
	case COLUMN_ID:
	case COLUMN_STATUS:
	case COLUMN_TEXT:
		if (v.type == JT_STRING)
			jval_str_buf(v, &text);
		else if (v.type != JT_NONE)
			buf_append(&text, v.text, v.len);
		if (col->kind == COLUMN_STATUS)
			colour = format_status_colour(buf_cstr(&text));
		for (char *p = text.data; p && *p; p++)
			if (*p == '\n' || *p == '\t')
				*p = ' ';
		break;
	}
	format_table_cell(t, text.len ? colour : FORMAT_DIM, text.len ? text.data : "-");
}

int noun_verb_table(struct jval list, const struct noun_verb_column *columns, size_t n, bool as_json)
{
	const char *heads[FORMAT_COLUMNS];
	buf_auto struct buf out = BUF_INIT;
	uint64_t now = clock_real_us();
	struct format_table t;

	if (as_json) {
		buf_append(&out, list.type == JT_ARRAY ? list.text : "[]", list.type == JT_ARRAY ? list.len : 2);
		buf_byte(&out, '\n');
		return format_out(&out);
	}
	for (size_t i = 0; i < n; i++)
		heads[i] = columns[i].head;
	format_table_init(&t, heads, n);
	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		for (size_t i = 0; i < n; i++)
			write_cell(&t, it.value, &columns[i], now);
	format_table_render(&t, format_coloured(STDOUT_FILENO), format_width(STDOUT_FILENO), &out);
	format_table_done(&t);
	return format_out(&out);
}

#define PAGE 500

/* Collects all pages of a list in one JSON array. */
static int collect_element(struct cli *c, const char *method, const char *member, const struct buf *filter,
			   struct buf *ret)
{
	char cursor[128] = "";

	buf_byte(ret, '[');
	do {
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		buf_auto struct buf params = BUF_INIT;
		struct err e = ERR_INIT;

		buf_printf(&params, "{\"limit\":%d", PAGE);
		if (filter && filter->len)
			buf_printf(&params, ",%s", filter->data);
		if (cursor[0])
			buf_printf(&params, ",\"cursor\":\"%s\"", cursor);
		buf_byte(&params, '}');
		if (cli_call(c, method, &params, &a, &e) < 0)
			return cli_fail(c, -1, &e, "list %s", member);
		for (struct jiter it = jiter_on(jval_get(a.result, member)); jiter_next(&it);) {
			if (ret->len > 1)
				buf_str(ret, ",\n");
			buf_append(ret, it.value.text, it.value.len);
		}
		jval_str(jval_get(a.result, "nextCursor"), cursor, sizeof(cursor));
	} while (cursor[0]);
	buf_byte(ret, ']');
	return 0;
}

int noun_verb_list(struct cli *c, const char *method, const char *member, const struct buf *filter,
		   const struct noun_verb_column *columns, size_t n, bool as_json)
{
	buf_auto struct buf all = BUF_INIT;

	if (collect_element(c, method, member, filter, &all) < 0)
		return EXIT_FAILED;
	return noun_verb_table(jval_of(all.data, all.len), columns, n, as_json);
}

/* Suffixes need 4 characters: ids are random, and shorter ones would match by accident. */
static bool is_abbreviation(const char *given, const char *id)
{
	const char *bare = strchr(id, '_');
	size_t n = strlen(given), len = strlen(id);

	return strncmp(id, given, n) == 0 || (bare && strncmp(bare + 1, given, n) == 0) ||
	       (n >= 4 && len >= n && strcmp(id + len - n, given) == 0);
}

int noun_verb_find(struct cli *c, const char *method, const char *member, const char *id_member, const char *given,
		   struct buf *ret_element)
{
	buf_auto struct buf all = BUF_INIT;
	struct jval found = { 0 };
	size_t n = 0;

	if (collect_element(c, method, member, NULL, &all) < 0)
		return -1;
	for (struct jiter it = jiter_on(jval_of(all.data, all.len)); jiter_next(&it);) {
		struct jval v = jval_get(it.value, id_member);
		char id[ID_LOOKUP_MAX];

		jval_str(v, id, sizeof(id));
		if (jval_is_str(v, given)) {
			found = it.value;
			n = 1;
			break;
		}
		if (*given && is_abbreviation(given, id)) {
			found = it.value;
			n++;
		}
	}
	if (n == 1) {
		buf_append(ret_element, found.text, found.len);
		return 0;
	}
	cli_error(n ? "'%s' is ambiguous" : "nothing matches '%s'", given);
	cli_hint("bailiff %s list lists them", c->verb->name);
	return -1;
}

static void write_words(const struct opts *o, const struct noun_verb_member *m, struct jw *w)
{
	jw_karr(w, m->name);
	for (size_t i = 0; i < o->ngiven; i++)
		if (o->given[i].option == m->option)
			jw_str(w, o->given[i].value);
	jw_arr_end(w);
}

int noun_verb_uint(struct cli *c, const char *name, const char *given, struct jw *w)
{
	char *end;
	uint64_t number = strtoull(given, &end, 10);

	if (*given < '0' || *given > '9' || *end)
		return cli_usage(c, "%s: '%s' is not a whole number", name, given);
	jw_kuint(w, name, number);
	return 0;
}

int noun_verb_members(struct cli *c, const struct noun_verb_member *members, size_t n, struct jw *w)
{
	for (size_t i = 0; i < n; i++) {
		const struct noun_verb_member *m = &members[i];
		const char *value = opts_get(&c->opts, m->option);
		struct err e = ERR_INIT;
		uint64_t number;
		int status;

		if (!opts_has(&c->opts, m->option))
			continue;
		switch (m->kind) {
		case MEMBER_STRING: jw_kstr(w, m->name, value); break;
		case MEMBER_WORDS: write_words(&c->opts, m, w); break;
		case MEMBER_FLAG: jw_kbool(w, m->name, true); break;
		case MEMBER_UINT:
			if ((status = noun_verb_uint(c, m->name, value, w)))
				return status;
			break;
		case MEMBER_TIME:
			if (text_duration_ms(value, &number, &e) < 0)
				return cli_usage(c, "--%s: %s", option_rows[m->option].name, e.message);
			jw_kuint(w, m->name, number);
			break;
		}
	}
	return 0;
}

int noun_verb_show(struct jval record, bool as_json)
{
	buf_auto struct buf out = BUF_INIT;

	if (as_json) {
		buf_append(&out, record.text, record.len);
		buf_byte(&out, '\n');
	} else {
		format_json(record, 0, &out);
	}
	return format_out(&out);
}

int noun_verb_call(struct cli *c, const char *method, const struct buf *params, const char *shown, bool as_json)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (cli_call(c, method, params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", c->verb->name);
	if (as_json) {
		buf_append(&out, a.result.text, a.result.len);
	} else if (shown) {
		format_scalar(jval_get(a.result, shown), &out);
	} else {
		format_json(a.result, 0, &out);
		return format_out(&out);
	}
	buf_byte(&out, '\n');
	return format_out(&out);
}

bool noun_verb_as_json(const struct cli *c)
{
	for (size_t i = 0; i < c->opts.ngiven; i++)
		if (strcmp(option_rows[c->opts.given[i].option].name, "json") == 0)
			return true;
	return false;
}

int noun_verb_id(struct cli *c, const struct noun_verb_listing *l, const char *given, char ret[ID_LOOKUP_MAX])
{
	buf_auto struct buf element = BUF_INIT;

	if (noun_verb_find(c, l->method, l->member, l->id, given, &element) < 0)
		return -1;
	jval_str(jval_get(jval_of(element.data, element.len), l->id), ret, ID_LOOKUP_MAX);
	return 0;
}

int noun_verb_show_listed(struct cli *c, const struct noun_verb_listing *l)
{
	buf_auto struct buf element = BUF_INIT;

	if (noun_verb_find(c, l->method, l->member, l->id, c->opts.args[1], &element) < 0)
		return EXIT_FAILED;
	return noun_verb_show(jval_of(element.data, element.len), noun_verb_as_json(c));
}

static int send_request(struct cli *c, const struct noun_verb_request *r)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	int status;

	jw_obj(&w);
	if (r->listing && noun_verb_id(c, r->listing, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_kstr(&w, r->args[0], r->listing ? id : c->opts.args[1]);
	if (r->args[1] && r->uint && (status = noun_verb_uint(c, r->args[1], c->opts.args[2], &w)))
		return status;
	if (r->args[1] && !r->uint)
		jw_kstr(&w, r->args[1], c->opts.nargs > 2 ? c->opts.args[2] : "");
	if ((status = noun_verb_members(c, r->members, r->nmembers, &w)))
		return status;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, r->method, &params, r->shown, noun_verb_as_json(c));
}

int noun_verb_run(struct cli *c, const struct noun_verb *of, size_t n)
{
	buf_auto struct buf names = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		buf_printf(&names, "%s%s", !i ? "" : i + 1 == n ? " or " : ", ", of[i].name);
		if (c->opts.nargs == 0 || strcmp(of[i].name, c->opts.args[0]) != 0)
			continue;
		if (c->opts.nargs - 1 < of[i].least || c->opts.nargs - 1 > of[i].most)
			return cli_usage(c, "%s takes %zu argument%s%s", of[i].name, of[i].least,
					 of[i].least == 1 ? "" : "s", of[i].most > of[i].least ? " or more" : "");
		if (cli_connect(c, of[i].starts ? CLI_START_ALWAYS : CLI_START_IF_STORE) < 0)
			return EXIT_FAILED;
		return of[i].run ? of[i].run(c) : send_request(c, &of[i].request);
	}
	return c->opts.nargs == 0 ? cli_usage(c, "%s?", buf_cstr(&names))
				  : cli_usage(c, "unknown verb '%s'", c->opts.args[0]);
}
