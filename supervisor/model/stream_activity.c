#include "supervisor/model/stream_activity.h"

#include "runtime/base/mem.h"

#include <string.h>

static bool may_be_keep_alive(const char *line, size_t len)
{
	static const char *const beginnings[] = { ":", "event:ping", "data:{\"type\":\"ping\"" };

	for (size_t i = 0; i < countof(beginnings); i++) {
		const size_t n = strlen(beginnings[i]);

		if (memcmp(line, beginnings[i], len < n ? len : n) == 0)
			return true;
	}
	return false;
}

bool stream_activity_feed(struct stream_activity *a, const char *p, size_t n)
{
	bool data = false;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' || p[i] == '\r') {
			a->len = 0;
			a->data = false;
		} else if (!a->data && p[i] != ' ' && a->len < sizeof a->line) {
			a->line[a->len++] = p[i];
			a->data = !may_be_keep_alive(a->line, a->len);
		}
		data |= a->data;
	}
	return data;
}
