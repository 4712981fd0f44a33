/*
 * Text of commands for people and for events. Quoting is chosen so that the text, given to a shell, runs the same
 * command, and so that a terminal shows exactly what it contains: invisible characters are escaped, because they could
 * make one command look like another.
 */

#include "policy/command_text.h"

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"

#include <stdbool.h>

static const struct {
	const char *name, *text;
} unknowns[] = {
#define UNKNOWN(NAME, name, covered, text) { name, text },
#include "policy/unknowns.def"
#undef UNKNOWN
};

const char *command_unknown_name(enum command_unknown bit) { return unknowns[bit].name; }

const char *command_unknown_text(enum command_unknown bit) { return unknowns[bit].text; }

const char *command_harm_name(enum command_harm h)
{
	static const char *const names[] = { "harmless", "risky", "destructive", "catastrophic" };

	return names[h];
}

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_@%+=:,./-", c) != NULL);
}

/*
 * C1 controls (c2 80 … c2 9f), and characters that have no width or change the direction of the text: they could make a
 * command look like another.
 */
static bool is_invisible(const unsigned char *s, size_t n)
{
	if (n >= 2 && s[0] == 0xc2)
		return s[1] < 0xa0 || s[1] == 0xad;
	if (n >= 3 && s[0] == 0xe2 && s[1] == 0x80)
		return (s[2] >= 0x8b && s[2] <= 0x8f) || (s[2] >= 0xa8 && s[2] <= 0xae);
	if (n >= 3 && s[0] == 0xe2 && s[1] == 0x81)
		return s[2] >= 0xa0 && s[2] <= 0xaf;
	return n >= 3 && s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf;
}

enum quoting { QUOTE_NONE, QUOTE_SINGLE, QUOTE_ESCAPE };

static enum quoting quoting_of(const char *s, size_t n)
{
	enum quoting q = n ? QUOTE_NONE : QUOTE_SINGLE;

	if (!text_utf8_valid(s, n))
		return QUOTE_ESCAPE;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c < 0x20 || c == 0x7f || is_invisible((const unsigned char *)s + i, n - i))
			return QUOTE_ESCAPE;
		if (!is_plain(c))
			q = QUOTE_SINGLE;
	}
	return q;
}

static void escape_byte(unsigned char c, struct buf *out)
{
	if (c == '\n')
		buf_str(out, "\\n");
	else if (c == '\t')
		buf_str(out, "\\t");
	else if (c == '\\' || c == '\'')
		buf_printf(out, "\\%c", c);
	else if (c >= 0x20 && c < 0x7f)
		buf_byte(out, (char)c);
	else
		buf_printf(out, "\\x%02x", c);
}

void command_quote(const char *s, size_t n, struct buf *out)
{
	switch (quoting_of(s, n)) {
	case QUOTE_NONE: buf_append(out, s, n); break;
	case QUOTE_SINGLE:
		buf_byte(out, '\'');
		for (size_t i = 0; i < n; i++)
			if (s[i] == '\'')
				buf_str(out, "'\\''");
			else
				buf_byte(out, s[i]);
		buf_byte(out, '\'');
		break;
	case QUOTE_ESCAPE:
		/* In an ANSI-C string \xNN takes at most two digits, so any following character is safe. */
		buf_str(out, "$'");
		for (size_t i = 0; i < n; i++)
			escape_byte((unsigned char)s[i], out);
		buf_byte(out, '\'');
		break;
	}
}

void command_display(const char *const *argv, size_t argc, size_t most, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	for (size_t i = 0; i < argc; i++) {
		if (i)
			buf_byte(&text, ' ');
		command_quote(argv[i], strlen(argv[i]), &text);
	}
	text_ends(buf_cstr(&text), text.len, most, out);
}

/* ---- JSON ---- */

static void unknown_names(unsigned bits, struct jw *w)
{
	if (!bits)
		return;
	jw_karr(w, "unknown");
	for (unsigned i = 0; i < COMMAND_UNKNOWN_COUNT; i++)
		if (bits & 1u << i)
			jw_str(w, command_unknown_name(i));
	jw_arr_end(w);
}

static void text_member(const char *key, const char *text, struct jw *w)
{
	size_t n = strlen(text);

	jw_kstrn(w, key, text, n > COMMAND_TEXT_MAX ? text_utf8_cut(text, COMMAND_TEXT_MAX) : n);
	if (n > COMMAND_TEXT_MAX)
		jw_kbool(w, "truncated", true);
}

static void simple_json(const struct command_simple *c, struct jw *w)
{
	jw_obj(w);
	text_member("text", c->text, w);
	if (c->nwrappers)
		jw_kstrv(w, "wrappers", c->wrappers, c->nwrappers);
	if (c->flags & COMMAND_READ_ONLY && !(c->flags & COMMAND_WRAPPER))
		jw_kbool(w, "readOnly", true);
	if (c->harm) {
		jw_kstr(w, "harm", command_harm_name(c->harm));
		jw_kstr(w, "impact", c->impact);
	}
	unknown_names(c->unknown, w);
	jw_obj_end(w);
}

static void facts_json(const struct command_facts *f, struct jw *w)
{
	jw_karr(w, "subcommands");
	for (size_t i = 0, n = 0; i < f->ncommands && n < COMMAND_PARTS_MAX; i++)
		if (f->command[i].argc) {
			simple_json(&f->command[i], w);
			n++;
		}
	jw_arr_end(w);
	jw_karr(w, "paths");
	for (size_t i = 0; i < f->npaths && i < COMMAND_PARTS_MAX; i++) {
		const struct command_path *p = &f->path[i];

		jw_obj(w);
		text_member("path", p->path, w);
		jw_kstr(w, "access",
			p->access & COMMAND_DELETES  ? "delete"
			: p->access & COMMAND_WRITES ? "write"
						     : "read");
		if (p->access & (COMMAND_RECURSES | COMMAND_SEARCHED | COMMAND_LISTS))
			jw_kbool(w, "recursive", true);
		if (!p->exact)
			jw_kbool(w, "exact", false);
		if (p->outside)
			jw_kbool(w, "outside", true);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_karr(w, "network");
	for (size_t i = 0; i < f->nhosts && i < COMMAND_PARTS_MAX; i++) {
		jw_obj(w);
		jw_kopt(w, "host", f->host[i].host);
		if (f->host[i].port)
			jw_kuint(w, "port", f->host[i].port);
		jw_kstr(w, "intent", f->host[i].intent);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	if (f->ncommands > COMMAND_PARTS_MAX || f->npaths > COMMAND_PARTS_MAX || f->nhosts > COMMAND_PARTS_MAX ||
	    f->nenv > COMMAND_PARTS_MAX)
		jw_kbool(w, "partsTruncated", true);
	jw_kbool(w, "readOnly", (f->flags & COMMAND_READ_ONLY) != 0);
	if (f->nenv) {
		jw_karr(w, "environment");
		for (size_t i = 0; i < f->nenv && i < COMMAND_PARTS_MAX; i++) {
			jw_obj(w);
			text_member("text", f->env[i], w);
			jw_obj_end(w);
		}
		jw_arr_end(w);
	}
	if (f->harm)
		jw_kstr(w, "harm", command_harm_name(f->harm));
	unknown_names(f->unknown, w);
	if (f->error[0])
		jw_kstr(w, "syntaxError", f->error);
}

void command_json(const char *const *argv, size_t argc, const struct command_facts *facts, struct buf *out)
{
	buf_auto struct buf display = BUF_INIT;
	struct jw w = jw_on(out);
	size_t used = 0, i;

	command_display(argv, argc, COMMAND_DISPLAY_MAX, &display);
	jw_obj(&w);
	jw_kstrn(&w, "display", buf_cstr(&display), display.len);
	jw_karr(&w, "argv");
	for (i = 0; i < argc; i++) {
		size_t n = strlen(argv[i]);

		if (n > COMMAND_ARGV_MAX - used)
			break;
		jw_strn(&w, argv[i], n);
		used += n;
	}
	jw_arr_end(&w);
	if (i < argc)
		jw_kbool(&w, "argvTruncated", true);
	facts_json(facts, &w);
	jw_obj_end(&w);
}
