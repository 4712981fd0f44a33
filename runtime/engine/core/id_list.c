#include "runtime/engine/core/id_list.h"

#include "runtime/base/log.h"
#include "runtime/engine/core/core.h"

void id_list_read(struct engine *engine, enum view_kind kind, const char *owner, size_t max, struct view_ids *ret)
{
	struct err e = ERR_INIT;

	if (view_ids_speculative(engine->o.store, kind, owner, max, ret, &e) < 0)
		log_error("list the documents of kind %d%s%s: %s", (int)kind, owner ? " of " : "", owner ? owner : "",
			  e.message);
}

bool id_list_first(struct engine *engine, enum view_kind kind, const char *owner, const char *except, char ret[ID_SIZE])
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	/* Two are enough: at most one of them is the exception. */
	id_list_read(engine, kind, owner, 2, &ids);
	ret[0] = '\0';
	for (size_t i = 0; i < ids.n && !ret[0]; i++)
		if (!except || strcmp(ids.id[i], except) != 0)
			id_copy(ret, ids.id[i]);
	return ret[0] != '\0';
}

bool id_list_has(const char (*ids)[ID_SIZE], size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(ids[i], id) == 0)
			return true;
	return false;
}

void id_list_write(struct jw *w, const char *key, const char (*ids)[ID_SIZE], size_t n)
{
	jw_karr(w, key);
	for (size_t i = 0; i < n; i++)
		jw_str(w, ids[i]);
	jw_arr_end(w);
}
