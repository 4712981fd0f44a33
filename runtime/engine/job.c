#include "runtime/engine/task_private.h"

#include "runtime/base/mem.h"

struct open_job {
	struct engine *engine;
	char id[ID_ROOM];
};

static bool find_open_job(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct open_job *o = ctx;
	const char *slash = memrchr(id, '/', id_len);
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	if (!slash)
		return true;
	snprintf(o->id, sizeof o->id, "%.*s", (int)(id_len - (size_t)(slash + 1 - id)), slash + 1);
	if (store_model_get_ahead(o->engine->o.store, VIEW_LIVE_JOB, o->id, &text, &e) == 0)
		return false;
	o->id[0] = '\0';
	return true;
}

bool job_open_of_task(struct engine *g, const char *task_id, char ret_job[ID_ROOM])
{
	struct open_job o = { .engine = g };
	struct err e = ERR_INIT;
	char prefix[ID_ROOM + 1];

	snprintf(prefix, sizeof prefix, "%s/", task_id);
	(void)store_model_scan_ahead(g->o.store, VIEW_TASK_JOB, prefix, find_open_job, &o, &e);
	memcpy(ret_job, o.id, ID_ROOM);
	return o.id[0] != '\0';
}
