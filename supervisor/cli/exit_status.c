/*
 * How a process ended is recorded in three places with the same members: the event of its end, the process's record,
 * and the error of a start that failed. The exit status is computed from those members alone, so that `run`, `wait`
 * and `attach` agree.
 */

#include "supervisor/cli/exit_status.h"

#include "runtime/base/buf.h"
#include "runtime/base/text.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/autorun_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Signals are numbers or names. */
static int signal_of(struct jval v)
{
	char name[32];

	if (v.type == JT_NUMBER)
		return (int)jval_int(v, 0);
	if (v.type != JT_STRING)
		return 0;
	jval_str(v, name, sizeof(name));
	int sig = text_signal_number(name);
	return sig > 0 ? sig : 0;
}

static const struct {
	int number;
	const char *name;
} exec_errors[] = {
	{ ENOENT, "ENOENT" },   { ENOTDIR, "ENOTDIR" }, { EACCES, "EACCES" }, { EPERM, "EPERM" },
	{ ENOEXEC, "ENOEXEC" }, { EISDIR, "EISDIR" },   { ELOOP, "ELOOP" },
};

/* The errno of a failed step, by number or name. */
static int errno_of(struct jval details)
{
	struct jval name = jval_get(details, "errnoName");

	for (size_t i = 0; i < sizeof(exec_errors) / sizeof(exec_errors[0]); i++)
		if (jval_is_str(name, exec_errors[i].name))
			return exec_errors[i].number;
	return (int)jval_int(jval_get(details, "errno"), 0);
}

/*
 * Only a failed exec of the command itself means "not found" or "not executable"; failures of other steps are
 * bailiff's.
 */
static int status_of_failure(struct jval details)
{
	struct jval category = jval_get(details, "category");

	if (jval_is_str(category, "timeout"))
		return EXIT_TIME_LIMIT;
	if (jval_is_str(category, "permission") || jval_is_str(category, "permission_denied"))
		return EXIT_NOT_EXECUTABLE;
	if (jval_get(details, "limit").type == JT_STRING) { /* it ran, and a limit stopped it */
		int sig = signal_of(jval_get(details, "signal"));
		return sig ? 128 + sig : (int)jval_int(jval_get(details, "exitCode"), EXIT_BAILIFF);
	}
	if (!jval_is_str(jval_get(details, "stage"), "exec"))
		return EXIT_BAILIFF;
	switch (errno_of(details)) {
	case ENOENT:
	case ENOTDIR: return EXIT_NOT_FOUND;
	case 0: return EXIT_BAILIFF;
	default: return EXIT_NOT_EXECUTABLE;
	}
}

/* Limits and what sets them. Their messages: NULL = as recorded. */
static const struct {
	const char *limit, *option, *parameter, *message;
} limits[] = {
	{ "wall", "--timeout", "limits.wallMs", "ended by its time limit" },
	{ "idle", "--idle-timeout", "limits.idleMs", "ended by its limit of time without output" },
	{ "cpu", "--cpu-time", "limits.cpuMs", "ended by its limit of CPU time" },
	{ "memory", "--memory", "limits.memoryBytes", NULL },
	{ "pids", "--pids", "limits.pids", NULL },
};

/* The limit that was hit, or the reason that was recorded. */
static void note_failure(struct jval details, const char *otherwise, struct exit_status *o)
{
	struct jval limit = jval_get(details, "limit");
	char message[400];

	jval_str(jval_get(details, "message"), message, sizeof(message));
	snprintf(o->note, sizeof(o->note), "%s", message[0] ? message : otherwise);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (!jval_is_str(limit, limits[i].limit))
			continue;
		o->option = limits[i].option;
		o->parameter = limits[i].parameter;
		if (limits[i].message)
			snprintf(o->note, sizeof(o->note), "%s", limits[i].message);
	}
}

void exit_status_print(const struct exit_status *o, const char *name)
{
	if (o->note[0] && o->option)
		cli_error("%s: %s (%s)", name, o->note, o->option);
	else if (o->note[0])
		cli_error("%s: %s", name, o->note);
}

/* `details`: the members that event payload and process have in common. */
static void exit_status_ended(struct jval details, bool failed, bool lost, struct exit_status *ret)
{
	int sig = signal_of(jval_get(details, "signal"));
	struct exit_status o = { 0 };

	if (lost) {
		o.status = EXIT_BAILIFF;
		note_failure(details, "lost: it ended unseen together with the daemon", &o);
	} else if (failed) {
		o.status = status_of_failure(details);
		note_failure(details, "failed", &o);
	} else if (sig) {
		o.status = 128 + sig;
	} else {
		o.status = (int)jval_int(jval_get(details, "exitCode"), EXIT_BAILIFF);
	}
	*ret = o;
}

bool exit_status_of_command(struct jval event, struct exit_status *ret)
{
	if (!jval_is_str(jval_get(event, "type"), "process.command_exited"))
		return false;
	exit_status_ended(jval_path(event, "payload.commandExited"), false, false, ret);
	return true;
}

bool exit_status_of_event(struct jval event, struct exit_status *ret)
{
	struct jval type = jval_get(event, "type"), payload = jval_get(event, "payload");
	bool failed = jval_is_str(type, "process.failed");

	if (!failed && !jval_is_str(type, "process.completed") && !jval_is_str(type, "process.terminated"))
		return false;
	exit_status_ended(payload, failed, failed && jval_is_str(jval_get(event, "status"), "lost"), ret);
	return true;
}

bool exit_status_of_process(struct jval process, struct exit_status *ret)
{
	struct jval status = jval_get(process, "status");
	bool failed = jval_is_str(status, "failed"), lost = jval_is_str(status, "lost");

	if (!failed && !lost && !jval_is_str(status, "completed") && !jval_is_str(status, "terminated"))
		return false;
	exit_status_ended(process, failed, lost, ret);
	return true;
}

/* The copy-on-write sandbox in which it ran: its id, or "". */
static void find_cow_sandbox(struct cli *c, const char *process_id, char ret[ID_LOOKUP_MAX])
{
	request_auto struct request process = REQUEST_INIT(process), sandbox = REQUEST_INIT(sandbox);

	jw_kstr(&process.w, "processId", process_id);
	ret[0] = '\0';
	if (request_read(c, &process, "get_process") < 0)
		return;
	jval_str(jval_get(process.result, "sandboxId"), ret, ID_LOOKUP_MAX);
	jw_kstr(&sandbox.w, "sandboxId", ret);
	if (!ret[0] || request_read(c, &sandbox, "get_sandbox") < 0 ||
	    !jval_bool(jval_get(sandbox.result, "cow"), false))
		ret[0] = '\0';
}

void print_autorun(struct cli *c, struct jval autorun, const char *process_id, bool cow)
{
	buf_auto struct buf words = BUF_INIT;
	bool changed = autorun_describe(autorun, &words);
	char sandbox[ID_LOOKUP_MAX] = "";

	for (char *line = words.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		cli_error("%s", line);
	}
	if (changed && process_id && !cow)
		find_cow_sandbox(c, process_id, sandbox);
	if (changed && (cow || sandbox[0]))
		cli_hint("bailiff apply %s leaves these out unless you name them; check them first",
			 cow ? process_id : sandbox);
	else if (changed && !process_id)
		cli_hint("check them before you use those programs there");
	else if (changed)
		cli_hint("check them before you use those programs there, or restore them with bailiff revert %s",
			 process_id);
}

/* A denial by policy has its own code; a failed exec has the same members as an event. */
void exit_status_of_error(struct jval error, struct exit_status *ret)
{
	struct exit_status o = { .status = EXIT_BAILIFF };

	if (jval_int(jval_get(error, "code"), 0) == -32010)
		o.status = EXIT_NOT_EXECUTABLE;
	else if (jval_is_str(jval_path(error, "data.stage"), "exec"))
		o.status = status_of_failure(jval_get(error, "data"));
	jval_str(jval_get(error, "message"), o.note, sizeof(o.note));
	*ret = o;
}
