/*
 * Collects ids in one scan. A scan holds a read transaction open, so callers collect a bounded number of ids here
 * and read the documents afterwards.
 */

#include "runtime/view/view_ids.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

struct id_scan {
	const struct view_ids_query *q;
	struct view_ids *ids;
	size_t cap, seen, max_seen;
	char last[VIEW_KEY_MAX];
	bool more;
};

void view_ids_done(struct view_ids *v)
{
	free(v->id);
	*v = VIEW_IDS_INIT;
}

static void add_id(struct id_scan *sc, const char *id, size_t len)
{
	if (sc->ids->n == sc->cap) {
		sc->cap = sc->cap ? 2 * sc->cap : 16;
		sc->ids->id = mem_realloc(sc->ids->id, sc->cap * sizeof(*sc->ids->id));
	}
	memcpy(sc->ids->id[sc->ids->n], id, len);
	sc->ids->id[sc->ids->n++][len] = '\0';
}

/* Stops one entry after the last that fits, to know whether there is more. */
static bool on_key(void *ctx, const char *key, size_t len, const char *json, size_t json_len)
{
	struct id_scan *sc = ctx;
	const char *slash = memrchr(key, '/', len);
	const char *id = slash ? slash + 1 : key;
	size_t n = len - (size_t)(id - key);
	size_t end = sc->q->ending ? strlen(sc->q->ending) : 0;

	if (sc->ids->n >= sc->q->max || sc->seen >= sc->max_seen) {
		sc->more = true;
		return false;
	}
	if (len >= sizeof(sc->last) || n >= ID_SIZE)
		return true;
	sc->seen++;
	memcpy(sc->last, key, len);
	sc->last[len] = '\0';
	if (end <= n && memcmp(id + n - end, end ? sc->q->ending : "", end) == 0)
		add_id(sc, id, n);
	return true;
}

int view_ids(struct store *s, const struct view_ids_query *q, struct view_ids *ret, char *ret_last, struct err *e)
{
	struct id_scan sc = { .q = q, .ids = ret, .max_seen = q->max_seen ? q->max_seen : q->max };

	view_ids_done(ret);
	if (store_model_scan(s, (uint8_t)q->kind, q->prefix, q->after, q->descending, on_key, &sc, e) < 0)
		return -1;
	if (ret_last)
		memcpy(ret_last, sc.last, sizeof(sc.last));
	return sc.more ? 1 : 0;
}

int view_ids_speculative(struct store *s, enum view_kind kind, const char *owner, size_t max, struct view_ids *ret,
			 struct err *e)
{
	const struct view_ids_query q = { .kind = kind, .max = max };
	struct id_scan sc = { .q = &q, .ids = ret, .max_seen = max };
	char prefix[VIEW_KEY_MAX];

	view_ids_done(ret);
	(void)snprintf(prefix, sizeof(prefix), "%s/", owner ? owner : "");
	return store_model_scan_speculative(s, (uint8_t)kind, owner ? prefix : NULL, on_key, &sc, e) < 0 ? -1 : sc.more;
}

/* The order is that of the keys, which is the order of creation for generated ids. */
int view_members(struct store *s, enum view_kind kind, const char *owner, enum view_order order, size_t max,
		 struct view_ids *ret, struct err *e)
{
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = {
		.kind = kind, .prefix = prefix, .descending = order == VIEW_NEWEST_FIRST, .max = max
	};

	(void)snprintf(prefix, sizeof(prefix), "%s/", owner);
	return view_ids(s, &q, ret, NULL, e);
}
