#include "runtime/store/damage.h"

#include "runtime/base/mem.h"
#include "runtime/store/store_private.h"

#define FINDINGS_MAX 256u /* further findings are not reported */

struct finding {
	struct completion completion;
	char *message;
};

/* On the loop thread, outside of the read. */
static void report_finding(struct store *store, struct completion *c)
{
	struct finding *f = (struct finding *)c;

	if (store->on_damage)
		store->on_damage(store->on_damage_ctx, f->message);
	free(f->message);
	free(f);
}

int damage_note(struct store *store, int r, const struct err *e)
{
	if (r >= 0 || !e || e->code != ERR_CORRUPT)
		return r;
	pthread_mutex_lock(&store->mutex);
	if (store->findings.count < FINDINGS_MAX && !strmap_get(&store->findings, e->message)) {
		struct finding *f = mem_zalloc(1, sizeof *f);

		f->completion.run = report_finding;
		f->message = mem_strdup(e->message);
		strmap_put(&store->findings, e->message, store);
		completion_post_locked(store, &f->completion);
	}
	pthread_mutex_unlock(&store->mutex);
	return r;
}

void damage_forget(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	strmap_done(&store->findings);
	store->findings = STRMAP_INIT;
	pthread_mutex_unlock(&store->mutex);
}

size_t store_damage(struct store *store)
{
	pthread_mutex_lock(&store->mutex);
	size_t n = store->findings.count;
	pthread_mutex_unlock(&store->mutex);
	return n;
}

void store_on_damage(struct store *store, void (*fn)(void *ctx, const char *message), void *ctx)
{
	store->on_damage = fn;
	store->on_damage_ctx = ctx;
}
