#include "supervisor/cli/scope.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/client/remote.h"

#include <stdio.h>
#include <string.h>

static const struct {
	const char *prefix, *word, *member;
} kinds[] = {
	{ "thr_", "thread=", "threadId" },
	{ "turn_", "turn=", "turnId" },
	{ "task_", "task=", "taskId" },
	{ "sess_", "session=", "sessionId" },
};

static int turn_of_process(struct cli *c, const char *given, struct scope *ret)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_process(c, given, id) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_obj_end(&w);
	if (cli_call(c, "get_process", &params, &a, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	ret->member = "turnId";
	jval_str(jval_get(a.result, "turnId"), ret->id, sizeof(ret->id));
	return 0;
}

/* A job has no scope of its own: its events belong to its task, or else to its session. */
static int scope_of_job(struct cli *c, const char *given, struct scope *ret)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_job(c, given, id) < 0)
		return -1;
	jw_obj(&w);
	jw_kstr(&w, "jobId", id);
	jw_kuint(&w, "limit", 1);
	jw_obj_end(&w);
	if (cli_call(c, "get_job", &params, &a, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	ret->member = jval_get(a.result, "taskId").type == JT_STRING ? "taskId" : "sessionId";
	jval_str(jval_get(a.result, ret->member), ret->id, sizeof(ret->id));
	return 0;
}

int scope_find(struct cli *c, const char *given, struct scope *ret)
{
	*ret = (struct scope){ .member = "sessionId" };
	for (size_t i = 0; i < countof(kinds); i++) {
		bool word = strncmp(given, kinds[i].word, strlen(kinds[i].word)) == 0;

		if (!word && (strncmp(given, kinds[i].prefix, strlen(kinds[i].prefix)) != 0 || i == countof(kinds) - 1))
			continue;
		ret->member = kinds[i].member;
		snprintf(ret->id, sizeof(ret->id), "%s", word ? given + strlen(kinds[i].word) : given);
		return 0;
	}
	if (strncmp(given, "proc_", 5) == 0)
		return turn_of_process(c, given, ret);
	if (strncmp(given, "job_", 4) == 0)
		return scope_of_job(c, given, ret);
	return id_lookup_session(c, given, ret->id);
}
