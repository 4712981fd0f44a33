#include "runtime/store/memory_models.h"

#include "runtime/base/mem.h"
#include "runtime/store/docs.h"
#include "runtime/store/read_models.h"

struct models *memory_models_new(void)
{
	struct models *m = mem_zalloc(1, sizeof(*m));

	m->docs = mem_zalloc(1, sizeof(*m->docs));
	return m;
}

void memory_models_free(struct models *m)
{
	if (!m)
		return;
	docs_done(m->docs);
	free(m->docs);
	free(m);
}

void memory_models_each(struct models *m, uint8_t kind,
			bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx)
{
	docs_list_auto struct docs_list all = DOCS_LIST_INIT;

	docs_list_add(&all, m->docs, kind, NULL);
	docs_list_sort(&all, false);
	for (size_t i = 0; i < all.count; i++)
		if (!all.all[i]->gone &&
		    !fn(ctx, all.all[i]->id, all.all[i]->id_len, all.all[i]->json, all.all[i]->len))
			break;
}
