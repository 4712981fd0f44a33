#include "supervisor/webhook/webhook.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <string.h>

/* A line break in a value would start another header. */
static bool is_value(const struct buf *b)
{
	for (size_t i = 0; i < b->len; i++)
		if (((unsigned char)b->data[i] < 0x20 && b->data[i] != '\t') || b->data[i] == 0x7f)
			return false;
	return true;
}

static bool is_listed(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
		if (strncmp(s, name, n) == 0 && (!s[n] || s[n] == ','))
			return true;
	return false;
}

static size_t name_len(const char *s)
{
	size_t n = 0;

	if (isalpha((unsigned char)s[0]) || s[0] == '_')
		while (isalnum((unsigned char)s[n]) || s[n] == '_')
			n++;
	return n;
}

static void expand_variables(const char *s, const char *allowed, const char *(*env)(const char *name), struct buf *out)
{
	while (*s) {
		const bool braced = s[0] == '$' && s[1] == '{';
		const size_t n = s[0] == '$' ? name_len(s + 1 + braced) : 0;

		if (!n || (braced && s[2 + n] != '}')) {
			buf_byte(out, *s++);
			continue;
		}
		mem_auto char *name = mem_strndup(s + 1 + braced, n);
		const char *value = is_listed(allowed, name) ? env(name) : NULL;
		if (value)
			buf_str(out, value);
		s += 1 + n + 2 * braced;
	}
}

int webhook_headers(const char *json, const char *allowed, const char *(*env)(const char *name),
		    void (*fn)(void *ctx, const char *line), void *ctx, struct err *e)
{
	for (struct jiter it = jiter_on(jval_of(json, strlen(json))); jiter_next(&it);) {
		mem_auto char *name = jval_strdup(it.key), *text = jval_strdup(it.value);
		buf_auto struct buf value = BUF_INIT, line = BUF_INIT;

		if (!name || !text || !text_http_token(name))
			return err_set(e, ERR_INVALID, "'%.60s' is not a header with a string value", name ? name : "");
		expand_variables(text, allowed, env, &value);
		if (!is_value(&value))
			return err_set(e, ERR_INVALID,
				       "the value of header '%.60s' has characters that a header cannot have", name);
		/* libcurl's syntax for a header without a value is "Name;". "Name:" would remove the header. */
		buf_printf(&line, "%s%s%s", name, value.len ? ": " : ";", value.len ? buf_cstr(&value) : "");
		fn(ctx, buf_cstr(&line));
	}
	return 0;
}
