/*
 * Codex's environments.toml. There is no TOML library here, and none is needed to add one table to a file whose other
 * lines are preserved: the file is read line by line, far enough to distinguish top-level keys from tables and to find
 * the end of a table. Anything beyond that (multi-line strings, dotted or quoted names of the keys in question) is
 * rejected, not guessed.
 */

#include "supervisor/cli/setup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct toml_line {
	const char *text;
	size_t len; /* without the newline */
};

/* Lines end with a newline or with the text; a carriage return counts as a blank. */
static bool next_line(const char **at, struct toml_line *ret)
{
	if (!**at)
		return false;
	const char *end = strchrnul(*at, '\n');
	*ret = (struct toml_line){ *at, (size_t)(end - *at) };
	*at = *end ? end + 1 : end;
	return true;
}

static struct toml_line trim_line(struct toml_line l)
{
	while (l.len && isspace((unsigned char)*l.text))
		l.text++, l.len--;
	while (l.len && isspace((unsigned char)l.text[l.len - 1]))
		l.len--;
	return l;
}

static bool starts_with(struct toml_line l, const char *word)
{
	return l.len >= strlen(word) && memcmp(l.text, word, strlen(word)) == 0;
}

static bool is_table(struct toml_line l) { return starts_with(trim_line(l), "["); }

/* [[environments]], with blanks or a comment where TOML allows them. */
static bool is_environment(struct toml_line l)
{
	static const char *const words[] = { "[[", "environments", "]]" };

	l = trim_line(l);
	for (size_t i = 0; i < countof(words); i++) {
		if (!starts_with(l, words[i]))
			return false;
		l = trim_line((struct toml_line){ l.text + strlen(words[i]), l.len - strlen(words[i]) });
	}
	return !l.len || *l.text == '#';
}

/* key = …; returns the text of the value. */
static bool is_key(struct toml_line l, const char *key, struct toml_line *ret_value)
{
	l = trim_line(l);
	size_t n = strlen(key);
	if (!starts_with(l, key))
		return false;
	struct toml_line rest = trim_line((struct toml_line){ l.text + n, l.len - n });
	if (!starts_with(rest, "="))
		return false;
	*ret_value = trim_line((struct toml_line){ rest.text + 1, rest.len - 1 });
	return true;
}

/* The text after a single-line string that starts here; NULL: it is not terminated. */
static const char *skip_string(const char *at, const char *end)
{
	char quote = *at++;

	for (; at < end && *at != quote; at++)
		if (quote == '"' && *at == '\\' && ++at == end)
			return NULL;
	return at < end ? at + 1 : NULL;
}

/*
 * The number of brackets that this line opens minus those it closes, outside of strings and comments. *ret_why: why it
 * cannot be parsed, or NULL.
 */
static int count_brackets(struct toml_line l, const char **ret_why)
{
	const char *end = l.text + l.len;
	int open = 0;

	*ret_why = NULL;
	for (const char *at = l.text; at < end && *at != '#';) {
		if (*at != '"' && *at != '\'') {
			open += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
			at++;
			continue;
		}
		if (end - at >= 3 && at[1] == *at && at[2] == *at)
			*ret_why = "a string over several lines";
		else if (!(at = skip_string(at, end)))
			*ret_why = "a string without its end";
		if (*ret_why)
			return 0;
		struct toml_line rest = trim_line((struct toml_line){ at, (size_t)(end - at) });
		if (rest.len && !strchr("#,]}=.", *rest.text)) {
			*ret_why = "a string with something behind it";
			return 0;
		}
	}
	return open;
}

/* A line with those after it that belong to its value: an array over several lines. */
static bool next_statement(const char **at, struct toml_line *ret)
{
	struct toml_line l;
	const char *why;

	if (!next_line(at, ret))
		return false;
	for (int open = count_brackets(*ret, &why); open > 0 && next_line(at, &l);) {
		open += count_brackets(l, &why);
		ret->len = (size_t)(l.text + l.len - ret->text);
	}
	return true;
}

static bool is_string(struct toml_line value, const char *s)
{
	size_t n = strlen(s);

	return value.len >= n + 2 && (*value.text == '"' || *value.text == '\'') && memcmp(value.text + 1, s, n) == 0 &&
	       value.text[n + 1] == *value.text;
}

/* A basic string of TOML: quotes, backslashes and control characters are escaped. */
static void write_string(struct buf *out, const char *s)
{
	buf_str(out, "\"");
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			buf_append(out, "\\", 1);
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			buf_printf(out, "\\u%04x", (unsigned char)*s);
		else
			buf_append(out, s, 1);
	}
	buf_str(out, "\"");
}

/* BAILIFF_HOME is set with env: the table has no place for variables. */
static void write_program(struct buf *out, const struct setup_entry *entry)
{
	buf_str(out, "id = \"bailiff\"\nprogram = ");
	write_string(out, entry->home ? "/usr/bin/env" : entry->program);
	buf_str(out, "\nargs = [");
	if (entry->home) {
		mem_auto char *variable = mem_printf("BAILIFF_HOME=%s", entry->home);
		write_string(out, variable);
		buf_str(out, ", ");
		write_string(out, entry->program);
		buf_str(out, ", ");
	}
	buf_str(out, "\"codex-exec-server\"]\n");
}

static void copy_line(struct buf *out, struct toml_line l)
{
	buf_append(out, l.text, l.len);
	buf_str(out, "\n");
}

/* One of our names in an unsupported spelling: quoted or dotted. */
static bool is_disguised(struct toml_line l)
{
	static const char *const ours[] = { "default", "include_local", "environments", "id", "program", "args" };
	bool quoted = *l.text == '"' || *l.text == '\'';

	for (size_t i = 0; i < countof(ours); i++) {
		size_t n = strlen(ours[i]);
		if (quoted ? is_string(l, ours[i])
			   : starts_with(l, ours[i]) &&
				     starts_with(trim_line((struct toml_line){ l.text + n, l.len - n }), "."))
			return true;
	}
	return false;
}

/* Checks a line outside of arrays; returns the problem, or NULL. */
static const char *check_line(struct toml_line t)
{
	struct toml_line value;

	if (is_key(t, "environments", &value))
		return "environments as a value; write it as [[environments]] tables";
	if (is_disguised(t))
		return "a quoted or dotted name for a key that is set here; write it plainly";
	if (is_key(t, "default", &value) && (!value.len || !strchr("\"'", *value.text)))
		return "default: must be a string";
	if (*t.text == '[' ? t.text[t.len - 1] != ']' && !memchr(t.text, '#', t.len) : !memchr(t.text, '=', t.len))
		return "neither a table nor a key with its value";
	return NULL;
}

/* Everything that copy_top and copy_ours rely on. The error has the line. */
static int check_file(const char *present, struct err *e)
{
	bool top = true, has_default = false;
	struct toml_line l, value;
	int number = 0, depth = 0;

	while (next_line(&present, &l)) {
		number++;
		struct toml_line t = trim_line(l);
		const char *why, *wrong;
		if (!t.len || *t.text == '#')
			continue;
		int open = count_brackets(t, &why);
		wrong = why || depth ? why : check_line(t);
		if (!wrong && !depth && top && is_key(t, "default", &value)) {
			wrong = has_default ? "default stands there twice" : NULL;
			has_default = true;
		}
		top &= depth || !is_table(t);
		depth += open;
		if (!wrong && depth < 0)
			wrong = "a bracket that closes nothing";
		if (wrong)
			return err_set(e, ERR_INVALID, "line %d, column 1: %s", number, wrong);
	}
	return depth ? err_set(e, ERR_INVALID, "line %d, column 1: a bracket is not closed", number) : 0;
}

/* The table that starts at `at` (after its header) has our id. */
static bool block_is_ours(const char *at)
{
	struct toml_line l, value;

	while (next_statement(&at, &l) && !is_table(l))
		if (is_key(l, "id", &value))
			return is_string(value, "bailiff");
	return false;
}

/* The text after a string: possibly a comment of the user. */
static struct toml_line text_after_string(struct toml_line value)
{
	const char *end = skip_string(value.text,
				      value.text + value.len); /* check_file has verified that it is terminated */

	return (struct toml_line){ end, value.len - (size_t)(end - value.text) };
}

/* Copies the top-level keys: ours are set in place, or inserted first. Returns the text after them. */
static const char *copy_top(const char *at, struct buf *out)
{
	struct buf buf_auto top = BUF_INIT;
	bool has_default = false, has_local = false;
	struct toml_line l, value;

	for (const char *before = at; next_statement(&at, &l); before = at) {
		if (is_table(l)) {
			at = before;
			break;
		}
		if (is_key(l, "default", &value)) {
			has_default = true;
			buf_str(&top, "default = \"bailiff\"");
			copy_line(&top, text_after_string(value));
			continue;
		}
		has_local |= is_key(l, "include_local", &value);
		copy_line(&top, l);
	}
	if (!has_default)
		buf_str(out, "default = \"bailiff\"\n");
	if (!has_local)
		buf_str(out, "include_local = false\n");
	buf_append(out, top.data, top.len);
	return at;
}

/*
 * Copies our own table after its header: id, program and args are replaced, the rest is preserved. Returns the text
 * after it.
 */
static const char *copy_ours(const char *at, const struct setup_entry *entry, struct buf *out)
{
	struct toml_line l, value;

	write_program(out, entry);
	for (const char *before = at; next_statement(&at, &l); before = at) {
		if (is_table(l))
			return before;
		if (!is_key(l, "id", &value) && !is_key(l, "program", &value) && !is_key(l, "args", &value))
			copy_line(out, l);
	}
	return at;
}

int setup_merge_toml(const char *present, const struct setup_entry *entry, struct buf *ret, struct err *e)
{
	const char *at = present ? present : "";
	bool written = false;
	struct toml_line l;

	if (check_file(at, e) < 0)
		return -1;
	at = copy_top(at, ret);
	while (next_statement(&at, &l)) {
		copy_line(ret, l);
		if (!is_environment(l) || !block_is_ours(at))
			continue;
		at = copy_ours(at, entry, ret);
		written = true;
	}
	if (!written) {
		if (ret->len >= 2 && memcmp(ret->data + ret->len - 2, "\n\n", 2) != 0)
			buf_str(ret, "\n");
		buf_str(ret, "[[environments]]\n");
		write_program(ret, entry);
	}
	/* The result must pass the same check as the input. */
	return check_file(buf_cstr(ret), e) < 0 ? err_wrap(e, "the result") : 0;
}
