/*
 * Adds rules to a policy file as an editor would: the text is parsed for the positions of its lists (jscan), and only
 * the new lines are inserted. The result is parsed again and compared with the old rules, so that a layout which this
 * code does not understand is reported and never damaged.
 */

#include "policy/policy_edit.h"

#include "policy/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

static const char *const nothing = "{\n}\n";

struct edit {
	const char *text;
	size_t len;
	const char *list;
	const char *const *rule;
	size_t count;
};

static void append_quoted(struct buf *out, const char *s)
{
	struct jw w = jw_on(out);

	jw_str(&w, s);
}

/* The indentation of the line of `at`; NULL if something else precedes it on the line. */
static const char *indent_of(const struct edit *d, const char *at, size_t *ret)
{
	const char *s = at;

	while (s > d->text && (s[-1] == ' ' || s[-1] == '\t'))
		s--;
	*ret = (size_t)(at - s);
	return s > d->text && s[-1] == '\n' ? s : NULL;
}

/* Writes each rule on a line of its own, or all on one line. `own` is the indentation, or NULL. */
static void put_rules(const struct edit *d, const char *own, size_t n, bool first, struct buf *out)
{
	for (size_t i = 0; i < d->count; i++) {
		if (i || !first)
			buf_str(out, own ? "," : ", ");
		if (own)
			buf_printf(out, "\n%.*s", (int)n, own);
		append_quoted(out, d->rule[i]);
	}
}

/* The indentation of the members of this container. */
static void member_indent(const struct edit *d, struct jval container, struct buf *out)
{
	struct jiter it = jiter_on(container);
	const char *own;
	size_t n;

	if (jiter_next(&it)) {
		own = indent_of(d, it.object ? it.key.text : it.value.text, &n);
		if (own) {
			buf_append(out, own, n);
			return;
		}
	}
	/* The indentation of the container's line, plus two. */
	const char *line = container.text;
	while (line > d->text && line[-1] != '\n')
		line--;
	buf_append(out, line, strspn(line, " \t"));
	buf_str(out, "  ");
}

/* Inserts into an array: after its last element, or as its first. */
static void insert_into_list(const struct edit *d, struct jval list, struct buf *out)
{
	struct jiter it = jiter_on(list);
	struct jval last = { 0 };
	const char *own = NULL, *end = list.text + list.len;
	size_t n = 0;

	while (jiter_next(&it))
		last = it.value;
	if (last.text) {
		own = indent_of(d, last.text, &n);
		buf_append(out, d->text, (size_t)(last.text + last.len - d->text));
		put_rules(d, own, n, false, out);
		buf_append(out, last.text + last.len, d->len - (size_t)(last.text + last.len - d->text));
		return;
	}
	buf_append(out, d->text, (size_t)(list.text + 1 - d->text));
	put_rules(d, NULL, 0, true, out);
	buf_append(out, end - 1, d->len - (size_t)(end - 1 - d->text));
}

/* Inserts a new first member into an object. */
static void insert_into_object(const struct edit *d, struct jval object, bool outer, struct buf *out)
{
	struct jiter it = jiter_on(object);
	buf_auto struct buf own = BUF_INIT, inner = BUF_INIT;
	bool empty = !jiter_next(&it);
	const char *rest = object.text + 1;

	member_indent(d, object, &own);
	buf_printf(&inner, "%s  ", buf_cstr(&own));
	buf_append(out, d->text, (size_t)(rest - d->text));
	buf_printf(out, "\n%s", own.data);
	if (outer) {
		buf_printf(out, "\"permissions\": {\n%s\"%s\": [", inner.data, d->list);
		buf_str(&inner, "  ");
		put_rules(d, inner.data, inner.len, true, out);
		buf_printf(out, "\n%.*s]\n%s}", (int)(inner.len - 2), inner.data, own.data);
	} else {
		buf_printf(out, "\"%s\": [", d->list);
		put_rules(d, inner.data, inner.len, true, out);
		buf_printf(out, "\n%s]", own.data);
	}
	if (!empty)
		buf_str(out, ",");
	else if (*rest != '\n' && *rest != '\r')
		buf_str(out, "\n");
	buf_append(out, rest, d->len - (size_t)(rest - d->text));
}

/*
 * Inserts into the list if there is one, else creates the list or the whole section. A text that only the parser of
 * policy files reads stays as it is, which the caller notices.
 */
static void apply_edit(const struct edit *d, struct buf *out)
{
	const char *open = memchr(d->text, '{', d->len);
	struct jval all = { 0 };

	if (open)
		all = jval_of(open, d->len - (size_t)(open - d->text));
	if (all.type != JT_OBJECT) {
		buf_append(out, d->text, d->len);
		return;
	}
	struct jval permissions = jval_get(all, "permissions"), list = jval_get(permissions, d->list);

	if (list.type == JT_ARRAY)
		insert_into_list(d, list, out);
	else if (permissions.type == JT_OBJECT)
		insert_into_object(d, permissions, false, out);
	else
		insert_into_object(d, all, true, out);
}

static enum rule_effect effect_of(const char *list)
{
	return strcmp(list, "allow") == 0 ? RULE_ALLOW : strcmp(list, "ask") == 0 ? RULE_ASK : RULE_DENY;
}

/* The line of a rule in a list; 0: it is not there. */
static unsigned line_of(const struct policy_rules *s, const char *rule, const char *list)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->rule[i].effect == effect_of(list) && s->rule[i].kind != RULE_PREFIX &&
		    strcmp(s->rule[i].text, rule) == 0)
			return s->rule[i].line;
	return 0;
}

int policy_edit_add(const char *text, size_t len, const char *list, const char *const *rule, size_t count,
		    struct buf *out, unsigned *ret_line, struct err *e)
{
	struct policy_rules before = RULES_INIT, after = RULES_INIT;
	const char **missing = mem_zalloc(count + 1, sizeof *missing);
	struct edit d = {
		.text = len ? text : nothing, .len = len ? len : strlen(nothing), .list = list, .rule = missing
	};
	buf_auto struct buf made = BUF_INIT;
	int r = policy_rules_parse(&before, RULE_OF_USER, "policy.json", d.text, d.len, e);

	for (size_t i = 0; r == 0 && i < count; i++)
		if (!line_of(&before, rule[i], list))
			missing[d.count++] = rule[i];
	if (r == 0 && d.count)
		apply_edit(&d, &made);
	else
		buf_append(&made, d.text, d.len);
	if (r == 0)
		r = policy_rules_parse(&after, RULE_OF_USER, "policy.json", made.data, made.len, e);
	/* Verify the result: all old rules and the added ones are there, and nothing else. */
	if (r == 0 && (after.count != before.count + d.count || !line_of(&after, rule[0], list)))
		r = err_set(e, ERR_STATE, "the file's layout is not supported; add the rule by hand");
	if (r == 0) {
		*ret_line = line_of(&after, rule[0], list);
		buf_append(out, made.data, made.len);
	}
	policy_rules_done(&before);
	policy_rules_done(&after);
	free(missing);
	return r;
}
