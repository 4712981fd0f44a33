#include "runtime/store/memory.h"

#include "runtime/base/mem.h"
#include "runtime/store/ahead.h"
#include "runtime/store/models.h"

#define ORDINAL 1u /* there is one batch, and it is never decided */

struct models *memory_models_new(void)
{
	struct models *m = mem_zalloc(1, sizeof(*m));

	m->ahead = mem_zalloc(1, sizeof(*m->ahead));
	m->ordinal = ORDINAL;
	ahead_init(m->ahead);
	return m;
}

void memory_models_free(struct models *m)
{
	if (!m)
		return;
	ahead_done(m->ahead);
	free(m->ahead);
	free(m);
}

void memory_models_each(struct models *m, uint8_t kind, bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
			void *ctx)
{
	size_t n;
	struct ahead_entry **all = ahead_list(m->ahead, kind, NULL, &n);

	for (size_t i = 0; i < n; i++)
		if (!all[i]->gone && !fn(ctx, all[i]->id, all[i]->id_len, all[i]->json, all[i]->len))
			break;
	free(all);
}
