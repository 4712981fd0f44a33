#include "supervisor/model/response_head.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct header {
	char *name;
	struct buf value;
};

static struct header *find_header(struct header *h, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(h[i].name, name) == 0)
			return &h[i];
	return NULL;
}

/* Adds "Name: value" of n bytes. Anything else, such as a folded line, is ignored. Returns the new count. */
static size_t add_header(struct header *h, size_t count, const char *line, size_t n)
{
	const char *colon = memchr(line, ':', n);
	mem_auto char *name = colon ? mem_strndup(line, (size_t)(colon - line)) : NULL;

	if (!name || !text_http_token(name))
		return count;
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	const char *value = colon + 1, *end = line + n;
	while (value < end && (*value == ' ' || *value == '\t'))
		value++;
	while (end > value && isspace((unsigned char)end[-1]))
		end--;
	struct header *known = find_header(h, count, name);
	if (strcmp(name, "set-cookie") == 0 || (!known && count == RESPONSE_HEAD_HEADERS_MAX))
		return count;
	if (known)
		buf_str(&known->value, ", ");
	else
		h[count] = (struct header){ mem_take(&name), BUF_INIT };
	buf_append(known ? &known->value : &h[count].value, value, (size_t)(end - value));
	return known ? count : count + 1;
}

bool response_head_json(long status, const char *lines, struct buf *out)
{
	static const char stream[] = "text/event-stream";
	struct header h[RESPONSE_HEAD_HEADERS_MAX];
	struct jw w = jw_on(out);
	size_t n = 0;

	for (const char *line = lines; *line;) {
		const size_t len = strcspn(line, "\n");

		n = add_header(h, n, line, len);
		line += len + (line[len] == '\n');
	}
	const struct header *type = find_header(h, n, "content-type");
	const bool events = type && strncasecmp(buf_cstr(&type->value), stream, strlen(stream)) == 0;
	jw_obj(&w);
	jw_kint(&w, "status", status);
	jw_kobj(&w, "headers");
	for (size_t i = 0; i < n; i++) {
		jw_kstrn(&w, h[i].name, buf_cstr(&h[i].value), h[i].value.len);
		free(h[i].name);
		buf_done(&h[i].value);
	}
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(out, '\n');
	return events;
}
