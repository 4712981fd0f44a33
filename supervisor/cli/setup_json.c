/*
 * Adds bailiff's entry to another program's JSON file. The text is edited in place, not written anew from a tree:
 * numbers, order, whitespace and, where the program accepts them, comments are preserved byte for byte.
 *
 * Positions are found in a copy in which comments (and trailing commas, where allowed) are replaced by blanks. The copy
 * is plain JSON with the same offsets; if it is not valid, the file is rejected with the position of the error.
 */

#include "supervisor/cli/setup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define OWN_NAME "bailiff"
#define HOME_VARIABLE "BAILIFF_HOME"
#define BLANKS " \t\r\n"

static const struct dialect {
	const char *member;    /* the object with the servers */
	bool typed;            /* each has the type "stdio" */
	bool always;           /* … and loads its tools at startup */
	bool comments, commas; /* extensions of JSON that the client accepts */
} dialects[] = {
	[SETUP_MCP_SERVERS] = { .member = "mcpServers" },
	[SETUP_CLAUDE_SERVERS] = { .member = "mcpServers", .always = true },
	[SETUP_COMMENTED_MCP_SERVERS] = { .member = "mcpServers", .comments = true },
	[SETUP_VSCODE_SERVERS] = { .member = "servers", .typed = true, .comments = true, .commas = true },
};

/* ---- the blanked copy ---- */

/* The offset after the string that starts at `at`; at the end of the text if it is not terminated. */
static size_t string_end(const char *text, size_t at)
{
	for (at++; text[at] && text[at] != '"'; at++)
		if (text[at] == '\\' && text[at + 1])
			at++;
	return text[at] ? at + 1 : at;
}

/* The offset after a comment that starts here; `at` if there is none. */
static size_t comment_end(const char *text, size_t at)
{
	const char *end;

	if (text[at] != '/' || (text[at + 1] != '/' && text[at + 1] != '*'))
		return at;
	if (text[at + 1] == '/')
		return at + strcspn(text + at, "\r\n");
	end = strstr(text + at + 2, "*/");
	return end ? (size_t)(end - text) + 2 : at; /* an unterminated comment stays, and is a syntax error */
}

/* Newlines stay, so that positions in error messages are right. */
static void blank_comments(char *text)
{
	for (size_t at = 0; text[at];) {
		size_t end = comment_end(text, at);

		if (text[at] == '"') {
			at = string_end(text, at);
			continue;
		}
		if (end == at)
			end = ++at;
		for (; at < end; at++)
			if (!strchr(BLANKS, text[at]))
				text[at] = ' ';
	}
}

/* A trailing comma: after a value and before a closing bracket. */
static void blank_commas(char *text)
{
	char before = '\0';

	for (size_t at = 0; text[at];) {
		const char c = text[at], next = text[at + 1 + strspn(text + at + 1, BLANKS)];

		if (c == ',' && !strchr("{[,:", before) && (next == '}' || next == ']'))
			text[at] = ' ';
		before = strchr(BLANKS, c) ? before : c;
		at = c == '"' ? string_end(text, at) : at + 1;
	}
}

/* ---- positions in the copy ---- */

struct json_range {
	size_t key;        /* offset of its name; for the root object, of the object itself */
	size_t start, end; /* its value */
};

/* The offset after the value that starts at `at`. The copy is valid JSON, so brackets match. */
static size_t value_end(const char *json, size_t at)
{
	int depth = 0;

	do {
		if (json[at] == '"') {
			at = string_end(json, at);
			continue;
		}
		depth += json[at] == '{' || json[at] == '[';
		depth -= json[at] == '}' || json[at] == ']';
		at++;
		if (!depth) /* a number or a literal */
			while (json[at] && !strchr(BLANKS ",]}", json[at]) && !strchr("}]", json[at - 1]))
				at++;
	} while (depth > 0);
	return at;
}

/* The member after `at` (initially the start of the object); false if there is none. */
static bool next_member(const char *json, size_t *at, struct json_range *ret)
{
	size_t key = *at + 1 + strspn(json + *at + 1, BLANKS ",");

	if (json[key] != '"')
		return false;
	size_t start = string_end(json, key);
	start += strspn(json + start, BLANKS ":");
	*ret = (struct json_range){ key, start, value_end(json, start) };
	*at = ret->end - 1;
	return true;
}

/* Names with escapes are not found; the caller rejects the file then. */
static bool find_member(const char *json, const struct json_range *object, const char *name, struct json_range *ret)
{
	size_t at = object->start, n = strlen(name);

	while (next_member(json, &at, ret))
		if (strncmp(json + ret->key + 1, name, n) == 0 && json[ret->key + 1 + n] == '"')
			return true;
	return false;
}

/* ---- style of the file ---- */

struct manner {
	const char *newline;
	char unit[16]; /* one level of indentation */
};

/* The least indented line determines one level. */
static struct manner detect_style(const char *present)
{
	struct manner m = { .newline = present && strstr(present, "\r\n") ? "\r\n" : "\n", .unit = "  " };
	size_t least = sizeof(m.unit);

	for (const char *line = present; line && (line = strchr(line, '\n'));) {
		line++;
		size_t n = strspn(line, line[0] == '\t' ? "\t" : " ");

		if (!n || n >= least || !line[n] || !strchr("\"}]/", line[n]))
			continue;
		least = n;
		memcpy(m.unit, line, n);
		m.unit[n] = '\0';
	}
	return m;
}

/* The indentation of the line that contains the offset. */
static char *indent_at(const char *text, size_t at)
{
	size_t line = at;

	while (line && text[line - 1] != '\n')
		line--;
	size_t n = strspn(text + line, " \t");
	char *indent = mem_zalloc(n + 1, 1);
	memcpy(indent, text + line, n);
	return indent;
}

/* Writes a value on several lines; the first one starts at this indentation. */
static void write_value(struct buf *out, const json_t *value, const struct manner *m, const char *indent)
{
	char *text = json_dumps(value, JSON_INDENT(1) | JSON_REAL_PRECISION(15));

	for (const char *at = text; *at;) {
		size_t n = strcspn(at, "\n");

		buf_append(out, at, n);
		at += n;
		if (!*at)
			break;
		buf_str(out, m->newline);
		buf_str(out, indent);
		for (n = strspn(++at, " "), at += n; n; n--)
			buf_str(out, m->unit);
	}
	free(text);
}

/* A trailing comma follows in the original; in the copy it is blank. */
static bool is_comma_next(const char *present, size_t at)
{
	for (size_t end;; at = end) {
		at += strspn(present + at, BLANKS);
		end = comment_end(present, at);
		if (end == at)
			return present[at] == ',';
	}
}

/* Appends a member to an object, after all others. */
static void append_member(const char *present, const char *json, const struct json_range *object, const char *name,
			  const json_t *value, struct buf *out)
{
	const struct manner m = detect_style(present);
	mem_auto char *outer = indent_at(present, object->key);
	size_t at = object->start, close = object->end - 1, last = 0, to = close;
	struct json_range p = *object;

	while (next_member(json, &at, &p))
		last = p.end;
	while (to > object->start + 1 && strchr(BLANKS, present[to - 1]))
		to--; /* after the last text, a comment or not */
	mem_auto char *lines_own = last ? indent_at(present, p.key) : NULL;
	mem_auto char *inner = lines_own && strlen(lines_own) > strlen(outer) ? mem_strdup(lines_own)
									      : mem_printf("%s%s", outer, m.unit);
	if (last && !is_comma_next(present, last)) {
		buf_append(out, present, last);
		buf_str(out, ",");
		buf_append(out, present + last, to - last);
	} else {
		buf_append(out, present, to);
	}
	buf_printf(out, "%s%s\"%s\": ", m.newline, inner, name);
	write_value(out, value, &m, inner);
	if (!memchr(present + to, '\n', close - to))
		buf_printf(out, "%s%s", m.newline, outer);
	buf_str(out, present + to);
}

/* Only the value; its name and everything around it stay. */
static void replace_value(const char *present, const struct json_range *p, const json_t *value, struct buf *out)
{
	const struct manner m = detect_style(present);
	mem_auto char *indent = indent_at(present, p->key);

	buf_append(out, present, p->start);
	write_value(out, value, &m, indent);
	buf_str(out, present + p->end);
}

/* ---- entry ---- */

/* Members that the user added are preserved. */
static json_t *entry_json(const struct dialect *d, const struct setup_entry *entry, const json_t *had)
{
	json_t *server = had && json_is_object(had) ? json_deep_copy(had) : json_object();
	json_t *env = json_object_get(server, "env");

	if (d->typed)
		json_object_set_new(server, "type", json_string("stdio"));
	json_object_set_new(server, "command", json_string(entry->program));
	json_object_set_new(server, "args", json_pack("[s]", "mcp"));
	if (d->always && !json_object_get(server, "alwaysLoad"))
		json_object_set_new(server, "alwaysLoad", json_true());
	if (entry->home && !json_is_object(env)) {
		env = json_object();
		json_object_set_new(server, "env", env);
	}
	if (entry->home)
		json_object_set_new(env, HOME_VARIABLE, json_string(entry->home));
	else if (json_object_del(env, HOME_VARIABLE) == 0 && !json_object_size(env))
		json_object_del(server, "env");
	return server;
}

static bool is_blank(const char *text) { return text[strspn(text, BLANKS)] == '\0'; }

/* For a file without a value: its comments stay at the top. */
static void write_alone(const char *present, const json_t *root, struct buf *ret)
{
	const struct manner m = detect_style(NULL);

	if (present && !is_blank(present)) /* only comments */
		buf_printf(ret, "%s%s", present, present[strlen(present) - 1] == '\n' ? "" : "\n");
	write_value(ret, root, &m, "");
	buf_str(ret, "\n");
}

/* The tree has the member but the text does not: its name is written with escapes (\u…). */
static int reject_name(const char *name, struct err *e)
{
	return err_set(e, ERR_INVALID, "the name \"%s\" is not written as such", name);
}

/* One of three edits: the whole member, the server in it, or only the changed server. */
static int change_text(const struct dialect *d, const char *present, const char *json, const json_t *root,
		       const struct setup_entry *entry, struct buf *ret, struct err *e)
{
	const json_t *servers = json_object_get(root, d->member), *had = json_object_get(servers, OWN_NAME);
	json_auto_t *server = entry_json(d, entry, had);
	const size_t first = strspn(json, BLANKS);
	const struct json_range whole = { first, first, value_end(json, first) };
	struct json_range in, own;

	if (servers && !json_is_object(servers))
		return err_set(e, ERR_INVALID, "\"%s\" is not an object", d->member);
	if (had && json_equal(had, server)) {
		buf_str(ret, present); /* unchanged */
		return 0;
	}
	if (!servers) {
		json_auto_t *all = json_pack("{sO}", OWN_NAME, server);
		append_member(present, json, &whole, d->member, all, ret);
		return 0;
	}
	if (!find_member(json, &whole, d->member, &in))
		return reject_name(d->member, e);
	if (!had) {
		append_member(present, json, &in, OWN_NAME, server, ret);
		return 0;
	}
	if (!find_member(json, &in, OWN_NAME, &own))
		return reject_name(OWN_NAME, e);
	replace_value(present, &own, server, ret);
	return 0;
}

/* ---- excluded tools ---- */

/* The names that are not in the array. */
static json_t *missing_names(const json_t *array, const struct setup_exclusion *x)
{
	json_t *missing = json_array();

	for (const char *const *name = x->names; *name; name++) {
		const json_t *one;
		bool there = false;
		size_t i;

		json_array_foreach (array, i, one)
			there = there || (json_is_string(one) && strcmp(json_string_value(one), *name) == 0);
		if (!there)
			json_array_append_new(missing, json_string(*name));
	}
	return missing;
}

/* Appends elements to an array, after all others. */
static void append_elements(const char *present, const char *json, const struct json_range *array, const json_t *more,
			    struct buf *out)
{
	mem_auto char *text = json_dumps(more, 0);
	size_t last = array->end - 1;

	while (strchr(BLANKS, json[last - 1]))
		last--;
	buf_append(out, present, last);
	buf_str(out, json[last - 1] == '[' || is_comma_next(present, last) ? "" : ", ");
	buf_append(out, text + 1, strlen(text) - 2);
	buf_str(out, present + last);
}

/* The same three edits for a list of names. */
static int exclude_member(const char *present, const char *json, const json_t *root, const struct setup_exclusion *x,
			  struct buf *ret, struct err *e)
{
	const json_t *object = json_object_get(root, x->object), *array = json_object_get(object, x->array);
	json_auto_t *missing = missing_names(array, x);
	const size_t first = strspn(json, BLANKS);
	const struct json_range whole = { first, first, value_end(json, first) };
	struct json_range in, own;

	if (object && !json_is_object(object))
		return err_set(e, ERR_INVALID, "\"%s\" is not an object", x->object);
	if (array && !json_is_array(array))
		return err_set(e, ERR_INVALID, "\"%s.%s\" is not an array", x->object, x->array);
	if (!json_array_size(missing)) {
		buf_str(ret, present); /* unchanged */
		return 0;
	}
	if (!object) {
		json_auto_t *all = json_pack("{sO}", x->array, missing);
		append_member(present, json, &whole, x->object, all, ret);
		return 0;
	}
	if (!find_member(json, &whole, x->object, &in))
		return reject_name(x->object, e);
	if (!array) {
		append_member(present, json, &in, x->array, missing, ret);
		return 0;
	}
	if (!find_member(json, &in, x->array, &own))
		return reject_name(x->array, e);
	append_elements(present, json, &own, missing, ret);
	return 0;
}

/* ---- reading ---- */

/* The blanked copy and its tree; *ret_root is NULL if the file has no value. */
static int read_json(const struct dialect *d, const char *present, char **ret_json, json_t **ret_root, struct err *e)
{
	mem_auto char *json = mem_strdup(present ? present : "");
	json_error_t where;
	json_t *root;

	if (d->comments)
		blank_comments(json);
	if (d->commas)
		blank_commas(json);
	*ret_root = NULL;
	if (!is_blank(json)) {
		root = json_loads(json, JSON_REJECT_DUPLICATES, &where);
		if (!root)
			return err_set(e, ERR_INVALID, "line %d, column %d: %s", where.line, where.column, where.text);
		if (!json_is_object(root)) {
			json_decref(root);
			return err_set(e, ERR_INVALID, "line 1, column 1: it is not an object");
		}
		*ret_root = root;
	}
	*ret_json = mem_strdup(json);
	return 0;
}

int setup_merge_json(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		     struct err *e)
{
	const struct dialect *d = &dialects[form];
	mem_auto char *json = NULL;
	json_auto_t *root = NULL, *server = NULL;

	if (read_json(d, present, &json, &root, e) < 0)
		return -1;
	if (root)
		return change_text(d, present, json, root, entry, ret, e);
	server = entry_json(d, entry, NULL);
	json_auto_t *all = json_pack("{s{sO}}", d->member, OWN_NAME, server);
	write_alone(present, all, ret);
	return 0;
}

int setup_exclude_json(enum setup_form form, const char *present, const struct setup_exclusion *x, struct buf *ret,
		       struct err *e)
{
	mem_auto char *json = NULL;
	json_auto_t *root = NULL;

	if (read_json(&dialects[form], present, &json, &root, e) < 0)
		return -1;
	if (root)
		return exclude_member(present, json, root, x, ret, e);
	json_auto_t *missing = missing_names(NULL, x);
	json_auto_t *all = json_pack("{s{sO}}", x->object, x->array, missing);
	write_alone(present, all, ret);
	return 0;
}
