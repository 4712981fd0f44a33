#include "runtime/engine/work/task_action.h"

int task_session(struct engine *g, const char *task_id, const struct caller *c, char ret_session[ID_SIZE],
		 struct err *e)
{
	task_auto struct task t = TASK_INIT;

	if (task_get(g, task_id, c, &t, e) < 0 || task_may(&t, TASK_VERB_ADD, e) < 0)
		return -1;
	id_copy(ret_session, t.d.sessionId);
	return 0;
}
