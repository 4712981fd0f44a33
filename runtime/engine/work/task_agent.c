/*
 * Attempts whose worker is an agent: a turn of the loop, in a thread of its own, instead of a process. Its end is the
 * end of the attempt, in the same commit. The turn's id is derived from that of the attempt, so a launch that a
 * restart repeats finds the turn that exists.
 */

#include "runtime/engine/process/process_owner.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/agent_turn.h"

enum task_work task_work_of(struct engine *engine, const struct task *t, const json_t *given)
{
	struct err e = ERR_INIT;

	if (!given && !task_has_command(t))
		return TASK_WORK_CLIENT;
	/* The command that is shown lacks only values of variables; a long one is not shown. */
	if (!given && t->d.command.type == JT_OBJECT)
		return jval_get(t->d.command, "agent").type == JT_OBJECT ? TASK_WORK_AGENT : TASK_WORK_COMMAND;
	json_auto_t *stored = given ? NULL : command_read(engine, t->d.command, t->d.commandRef, &e);
	return json_object_get(given ? given : stored, "agent") ? TASK_WORK_AGENT : TASK_WORK_COMMAND;
}

/* ---- the start ---- */

/* Options of submit_turn, which a command has under the same names. New reference. */
static json_t *options_of(const json_t *command)
{
	static const char *const members[] = { "cwd", "env", "profile", "sandbox", "limits" };
	json_t *options = json_object();

	for (size_t i = 0; i < countof(members); i++)
		if (json_object_get(command, members[i]))
			json_object_set(options, members[i], json_object_get(command, members[i]));
	return options;
}

void agent_command_submit(struct engine *engine, const struct turn_request *r, const json_t *command, uint32_t uid,
			  engine_reply_fn fn, void *ctx)
{
	const struct caller c = { .uid = uid, .role = command_role(command), .peer_fd = -1 };
	const json_t *agent = json_object_get(command, "agent");
	json_auto_t *options = options_of(command);
	const struct agent_prompt p = { .text = param_str(agent, "prompt"),
					.model = param_str(agent, "model"),
					.limits = json_object_get(agent, "limits"),
					.options = options };

	agent_turn_submit(engine, r, &p, &c, fn, ctx);
}

struct launched {
	struct engine *engine;
	char task_id[ID_SIZE], attempt_id[ID_SIZE];
};

/* A turn that exists ends with facts. Without one, the attempt is refused like one whose process cannot start. */
static void on_submitted(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct launched *l = ctx;
	buf_auto struct buf text = BUF_INIT;
	task_auto struct task t = TASK_INIT;
	char turn[ID_SIZE];
	struct turn_doc d;
	struct err none = ERR_INIT;

	agent_id(ID_KIND_TURN, l->attempt_id, turn);
	/* The attempt may have ended meanwhile, for example by its time limit. */
	if (!e && (task_read(l->engine, l->task_id, &t, &none) != 0 || !t.d.attemptOpen ||
		   strcmp(t.d.currentAttemptId, l->attempt_id) != 0))
		agent_turn_interrupt(l->engine, turn, "its attempt has ended");
	if (e && !l->engine->stopping && task_read(l->engine, l->task_id, &t, &none) == 0 && t.d.attemptOpen &&
	    strcmp(t.d.currentAttemptId, l->attempt_id) == 0 && turn_read(l->engine, turn, &text, &d, &none) != 0)
		process_owner(l->engine, OWNER_TASK)->refused(l->engine, l->task_id, e, NULL, 0);
	free(l);
}

void task_agent_launch(struct engine *engine, const struct task *t)
{
	buf_auto struct buf text = BUF_INIT;
	char turn[ID_SIZE];
	struct turn_doc known;
	struct err e = ERR_INIT;

	agent_id(ID_KIND_TURN, t->d.currentAttemptId, turn);
	if (turn_read(engine, turn, &text, &known, &e) == 0)
		return;
	json_auto_t *command = command_read(engine, t->d.command, t->d.commandRef, &e);
	if (!command) {
		process_owner(engine, OWNER_TASK)->refused(engine, t->d.taskId, &e, NULL, 0);
		return;
	}
	const struct turn_request r = { .session_id = t->d.sessionId,
					.new_thread = true,
					.turn_id = turn,
					.task_id = t->d.taskId,
					.run_id = t->d.currentRunId,
					.attempt_id = t->d.currentAttemptId };
	struct launched *l = mem_zalloc(1, sizeof *l);
	l->engine = engine;
	id_copy(l->task_id, t->d.taskId);
	id_copy(l->attempt_id, t->d.currentAttemptId);
	task_wake(engine, engine_real(engine)); /* nothing else enforces its time limits */
	agent_command_submit(engine, &r, command, (uint32_t)t->d.uid, on_submitted, l);
}

/* ---- the end ---- */

bool task_agent_turn(const struct task *t, char ret[ID_SIZE])
{
	ret[0] = '\0';
	if (strcmp(t->d.workerKind, "agent") != 0 || !t->d.currentAttemptId[0])
		return false;
	agent_id(ID_KIND_TURN, t->d.currentAttemptId, ret);
	return true;
}

bool task_agent_open(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	char turn[ID_SIZE];
	struct err e = ERR_INIT;

	return task_read(engine, task_id, &t, &e) == 0 && task_agent_turn(&t, turn) && agent_turn_open(engine, turn);
}

void task_agent_end(struct engine *engine, const char *task_id, const char *reason)
{
	task_auto struct task t = TASK_INIT;
	char turn[ID_SIZE];
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) == 0 && task_agent_turn(&t, turn))
		agent_turn_interrupt(engine, turn, reason);
}
