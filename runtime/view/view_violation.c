#include "runtime/view/projections.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#define VIOLATIONS_KEPT 32

/* Violations with the same kind and target. Texts are compared as written: one writer writes them all. */
static bool is_same_violation(struct jval a, struct jval b)
{
	static const char *const members[] = { "kind", "operation", "path", "pathIs",
					       "host", "address",   "port", "confidence" };

	for (size_t i = 0; i <= countof(members); i++) {
		const char *name = i < countof(members) ? members[i] : "syscall";
		struct jval x = jval_get(a, name), y = jval_get(b, name);

		if (i == countof(members) && !jval_is_str(jval_get(a, "kind"), "syscall"))
			break;
		if (x.type != y.type || x.len != y.len || (x.len && memcmp(x.text, y.text, x.len) != 0))
			return false;
	}
	return true;
}

/* An entry: the payload with another count. */
static void write_entry(struct jw *w, struct jval payload, uint64_t count)
{
	jw_obj(w);
	for (struct jiter it = jiter_on(payload); jiter_next(&it);) {
		char key[64];

		if (jval_is_str(it.key, "count") || jval_str(it.key, key, sizeof key) >= sizeof key)
			continue;
		jw_kraw(w, key, it.value.text, it.value.len);
	}
	jw_kuint(w, "count", count);
	jw_obj_end(w);
}

/* The number of entries, and the index of the one that matches the payload: −1 = none. */
static size_t find_violation(struct jval list, struct jval payload, ssize_t *ret_at)
{
	size_t n = 0;

	*ret_at = -1;
	for (struct jiter it = jiter_on(list); jiter_next(&it); n++)
		if (*ret_at < 0 && is_same_violation(it.value, payload))
			*ret_at = (ssize_t)n;
	return n;
}

static void write_list(struct jw *w, struct jval list, struct jval payload, uint64_t count)
{
	ssize_t found, at = 0;
	bool full = find_violation(list, payload, &found) >= VIOLATIONS_KEPT;

	jw_arr(w);
	for (struct jiter it = jiter_on(list); jiter_next(&it); at++) {
		if (at == found)
			write_entry(w, it.value, jval_uint(jval_get(it.value, "count"), 0) + count);
		else if (at > 0 || found >= 0 || !full)
			jw_raw(w, it.value.text, it.value.len);
	}
	if (found < 0)
		write_entry(w, payload, count);
	jw_arr_end(w);
}

int view_violation_on_reported(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	uint64_t count = jval_uint(jval_get(payload, "count"), 1);
	buf_auto struct buf list = BUF_INIT;
	struct jw w = jw_on(&list);
	struct violation_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_PROCESS, id, sizeof id);
	if (!*id)
		return 0;
	if (view_load(m, &violation_schema, id, &d, e) < 0)
		return -1;
	d.violationCount = view_counted(d.violationCount);
	if (!jval_is_str(jval_get(payload, "confidence"), "hint"))
		d.violationCount += count;
	write_list(&w, d.violations, payload, count);
	d.violations = jval_of(list.data, list.len);
	return view_save(m, &violation_schema, id, &d, e);
}
