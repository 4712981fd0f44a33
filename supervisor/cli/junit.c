#include "supervisor/cli/junit.h"

#include "runtime/base/buf.h"
#include "runtime/base/text.h"

#include <string.h>

/* XML has no control characters, not even escaped: text_sanitize has made them visible. */
static void put_text(struct buf *out, const char *text, size_t n)
{
	buf_auto struct buf safe = BUF_INIT;

	text_sanitize(text, n, &safe);
	for (size_t i = 0; i < safe.len; i++) {
		const char *p = safe.data + i;

		if (i + 2 < safe.len && memcmp(p, "\xef\xbf", 2) == 0 && (p[2] == '\xbe' || p[2] == '\xbf')) {
			buf_byte(out, '?'); /* the two that are not characters */
			i += 2;
		} else if (*p == '&') {
			buf_str(out, "&amp;");
		} else if (*p == '<') {
			buf_str(out, "&lt;");
		} else if (*p == '>') {
			buf_str(out, "&gt;");
		} else if (*p == '"') {
			buf_str(out, "&quot;");
		} else {
			buf_byte(out, *p);
		}
	}
}

static void put_attribute(struct buf *out, const char *name, const char *value)
{
	buf_printf(out, " %s=\"", name);
	put_text(out, value, strlen(value));
	buf_byte(out, '"');
}

static void put_time(struct buf *out, uint64_t ms)
{
	buf_printf(out, " time=\"%llu.%03u\"", (unsigned long long)(ms / 1000), (unsigned)(ms % 1000));
}

static void put_output(struct buf *out, const char *element, const struct buf *text)
{
	if (!text || !text->len)
		return;
	buf_printf(out, "      <%s>", element);
	put_text(out, text->data, text->len);
	buf_printf(out, "</%s>\n", element);
}

static void put_case(struct buf *out, const char *suite, const struct junit_case *c)
{
	buf_str(out, "    <testcase");
	put_attribute(out, "classname", suite);
	put_attribute(out, "name", c->name);
	put_time(out, c->duration_ms);
	buf_str(out, ">\n");
	if (c->result != JUNIT_PASSED) {
		buf_str(out, c->result == JUNIT_FAILED ? "      <failure" : "      <skipped");
		put_attribute(out, "message", c->message ? c->message : "");
		buf_str(out, "/>\n");
	}
	put_output(out, "system-out", c->out);
	put_output(out, "system-err", c->err);
	buf_str(out, "    </testcase>\n");
}

void junit_write(const char *suite, const struct junit_case *cases, size_t n, struct buf *out)
{
	size_t failed = 0, skipped = 0;
	uint64_t ms = 0;

	for (size_t i = 0; i < n; i++) {
		failed += cases[i].result == JUNIT_FAILED;
		skipped += cases[i].result == JUNIT_SKIPPED;
		ms += cases[i].duration_ms;
	}
	buf_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite");
	put_attribute(out, "name", suite);
	buf_printf(out, " tests=\"%zu\" failures=\"%zu\" errors=\"0\" skipped=\"%zu\"", n, failed, skipped);
	put_time(out, ms);
	buf_str(out, ">\n");
	for (size_t i = 0; i < n; i++)
		put_case(out, suite, &cases[i]);
	buf_str(out, "  </testsuite>\n</testsuites>\n");
}
