/*
 * The trials of `doctor`: each runs bailiff-tool in a sandbox, in a directory that is created for it and removed
 * afterwards. All but the first are started together, because each takes a noticeable time.
 */

#include "supervisor/cli/doctor.h"

#include "runtime/base/mem.h"
#include "supervisor/client/program_output.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define YIELD_MS 30000 /* then a trial counts as stuck; a memory limit takes seconds on a slow, loaded machine */
#define REMOVE_TRIES 100
#define FIFO_NAME "fifo"
#define MADE_NAME "made-inside" /* created by bailiff-tool inspect */

static const char *home_of_user(void)
{
	const struct passwd *pw = getpwuid(getuid());
	return pw && pw->pw_dir && pw->pw_dir[0] ? pw->pw_dir : "/nonexistent";
}

/* ---- workspace ---- */

/* With a FIFO in it, for the trial of Landlock. Both are accessible to every id that a sandbox may use. */
static int make_folder(const char *above, struct doctor *d, struct err *e)
{
	if (snprintf(d->folder, sizeof d->folder, "%.*s/.bailiff-doctor-XXXXXX", PATH_MAX - 64,
		     strcmp(above, "/") == 0 ? "" : above) < 0 ||
	    !mkdtemp(d->folder)) {
		d->folder[0] = 0;
		return err_sys(e, errno, "make a folder in %s", above);
	}
	mem_auto char *fifo = mem_printf("%s/" FIFO_NAME, d->folder);
	if (chmod(d->folder, 0755) < 0 || mkfifo(fifo, 0666) < 0 || chmod(fifo, 0666) < 0)
		return err_sys(e, errno, "make %s", fifo);
	return 0;
}

static void remove_folder(struct doctor *d)
{
	static const char *const names[] = { FIFO_NAME, MADE_NAME };
	for (size_t i = 0; d->folder[0] && i < countof(names); i++) {
		mem_auto char *path = mem_printf("%s/%s", d->folder, names[i]);
		unlink(path);
	}
	/*
	 * The daemon removes its placeholders with the last command, possibly shortly after its end was reported:
	 * retry.
	 */
	for (int i = 0; d->folder[0] && rmdir(d->folder) < 0 && errno == ENOTEMPTY && i < REMOVE_TRIES; i++)
		poll(NULL, 0, 10);
	d->folder[0] = 0;
}

/* ---- one trial ---- */

struct plan {
	const char *subject, *argument, *profile;
	const char *limit, *limit_value; /* a member of limits, as JSON */
	bool terminal;
};

/* Sent without waiting. The reply comes when the command has ended, or after YIELD_MS. */
static void begin_trial(struct cli *c, const char *tool, const struct doctor *d, const struct plan *p,
			struct doctor_trial *t)
{
	const char *const argv[] = { tool, "inspect", p->subject, p->argument };
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstrv(&w, "command", argv, countof(argv));
	jw_kstr(&w, "cwd", d->folder);
	jw_kopt(&w, "profile", p->profile);
	if (p->limit) {
		jw_kobj(&w, "limits");
		jw_kraw(&w, p->limit, p->limit_value, strlen(p->limit_value));
		jw_obj_end(&w);
	}
	if (p->terminal) {
		jw_kobj(&w, "tty");
		jw_kuint(&w, "rows", 24);
		jw_kuint(&w, "cols", 80);
		jw_obj_end(&w);
	}
	jw_kstr(&w, "onDisconnect", "terminate");
	jw_kuint(&w, "yieldMs", YIELD_MS);
	jw_kstr(&w, "justification", "bailiff doctor inspects a sandbox from inside");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	remote_send(c->remote, "start_process", &params, remote_answer_fill, &t->answer);
}

/* A command that waits for approval or is stuck ends with this connection (onDisconnect). */
static void read_result(struct doctor_trial *t)
{
	struct jval result = t->answer.result, output = jval_get(result, "output");
	char status[32] = "", signal[16] = "";

	jval_str(jval_get(result, "status"), status, sizeof status);
	jval_str(jval_get(result, "signal"), signal, sizeof signal);
	jval_str_buf(jval_path(output, "stdout.data"), &t->printed);
	jval_str_buf(jval_path(output, "pty.data"), &t->printed);
	t->seen = jval_of(buf_cstr(&t->printed), t->printed.len);
	if (t->seen.type == JT_OBJECT)
		return;
	t->seen = (struct jval){ 0 };
	if (signal[0])
		err_set(&t->failure, ERR_SANDBOX, "ended by signal %s", signal);
	else if (strcmp(status, "waiting_permission") == 0)
		err_set(&t->failure, ERR_PERMISSION, "policy asks before it runs a command");
	else
		err_set(&t->failure, ERR_SANDBOX, "no result (%s)", status[0] ? status : "no status");
}

/* Waits for the reply, and keeps what the program inside printed, or why it could not run. */
static void finish_trial(struct cli *c, struct doctor_trial *t)
{
	char *message = t->failure.message;

	if (remote_await(c->remote, &t->answer, &t->failure) == 0) {
		read_result(t);
		return;
	}
	if (t->answer.error.type == JT_NONE)
		return;
	/* "start '…/bailiff-tool inspect …': clone: …" → "clone: …". */
	char *behind = strncmp(message, "start '", 7) == 0 ? strstr(message, "': ") : NULL;
	if (behind)
		memmove(message, behind + 3, strlen(behind + 3) + 1);
	jval_str(jval_path(t->answer.error, "data.stage"), t->stage, sizeof t->stage);
	/* Not the daemon's advice, which is for programs, and in general is to run `bailiff doctor`. */
	const char *advice = cli_reason_advice(t->failure.reason);
	snprintf(t->advice, sizeof t->advice, "%s", advice ? advice : "");
}

static void forget_trial(struct doctor_trial *t)
{
	remote_answer_done(&t->answer);
	buf_done(&t->printed);
	*t = (struct doctor_trial){ 0 };
}

/* ---- all trials ---- */

static void try_sandbox(struct cli *c, const char *tool, struct doctor *d)
{
	const struct plan plan = { .subject = "sandbox", .argument = home_of_user() };
	struct doctor_trial *t = &d->trials[DOCTOR_SANDBOX];

	begin_trial(c, tool, d, &plan, t);
	finish_trial(c, t);
}

/*
 * Uses the working directory, where commands would run. If that fails, a temporary directory, to distinguish problems
 * of the directory from those of the machine.
 */
static int choose_folder(struct cli *c, const char *tool, struct doctor *d)
{
	struct doctor_trial *t = &d->trials[DOCTOR_SANDBOX];
	const char *temporary = getenv("TMPDIR");

	if (!getcwd(d->wanted, sizeof d->wanted))
		snprintf(d->wanted, sizeof d->wanted, "/");
	if (make_folder(d->wanted, d, &d->not_here) == 0) {
		try_sandbox(c, tool, d);
		if (!t->failure.message[0])
			return 0;
		if (t->failure.code == ERR_PERMISSION) /* denied by policy, which would deny it elsewhere, too */
			return -1;
		d->not_here = t->failure;
		snprintf(d->not_here_advice, sizeof d->not_here_advice, "%s", t->advice);
		forget_trial(t);
	}
	remove_folder(d);
	if (make_folder(temporary && temporary[0] == '/' ? temporary : "/tmp", d, &t->failure) < 0)
		return -1;
	try_sandbox(c, tool, d);
	return t->failure.message[0] ? -1 : 0;
}

/*
 * Landlock grants rights for whole hierarchies: below these directories it permits writing, even where the mount is
 * read-only.
 */
static bool landlock_permits_writing(const char *path)
{
	const char *const places[] = { "/tmp", "/var/tmp", "/dev/shm", home_of_user() };

	for (size_t i = 0; i < countof(places); i++) {
		size_t n = strlen(places[i]);
		if (strncmp(path, places[i], n) == 0 && (path[n] == '/' || !path[n]))
			return true;
	}
	return false;
}

/* The same count without a sandbox, to compare with. */
static uint64_t count_domains_outside(const char *tool)
{
	buf_auto struct buf out = BUF_INIT;
	mem_auto char *program = mem_strdup(tool);
	char inspect[] = "inspect", landlock[] = "landlock", none[] = "-";
	char *argv[] = { program, inspect, landlock, none, NULL };

	if (program_output(argv, &out, NULL) < 0)
		return 0;
	return jval_uint(jval_get(jval_of(out.data, out.len), "domains"), 0);
}

/* The FIFO trial proves nothing below directories where Landlock permits writing. */
static void try_rest(struct cli *c, const char *tool, struct doctor *d)
{
	mem_auto char *fifo = mem_printf("%s/" FIFO_NAME, d->folder);
	char memory[24], memory_limit[24], pids[24], pids_limit[24], cpu[24];
	const struct plan plans[DOCTOR_TRIALS] = {
		[DOCTOR_LANDLOCK] = { .subject = "landlock", .argument = "-" },
		[DOCTOR_FIFO] = { .subject = "fifo", .argument = fifo, .profile = "readonly" },
		[DOCTOR_MEMORY] = { .subject = "memory",
				    .argument = memory,
				    .limit = "memoryBytes",
				    .limit_value = memory_limit },
		[DOCTOR_PIDS] = { .subject = "pids", .argument = pids, .limit = "pids", .limit_value = pids_limit },
		[DOCTOR_CPU] = { .subject = "cpu", .argument = cpu, .limit = "cpus", .limit_value = "0.1" },
		[DOCTOR_TERMINAL] = { .subject = "terminal", .argument = "-", .terminal = true },
	};

	snprintf(memory, sizeof memory, "%u", DOCTOR_MEMORY_TRIED);
	snprintf(memory_limit, sizeof memory_limit, "%u", DOCTOR_MEMORY_LIMIT);
	snprintf(pids, sizeof pids, "%u", DOCTOR_PIDS_TRIED);
	snprintf(pids_limit, sizeof pids_limit, "%u", DOCTOR_PIDS_LIMIT);
	snprintf(cpu, sizeof cpu, "%u", DOCTOR_CPU_MS);
	const bool no_fifo = landlock_permits_writing(d->folder);
	for (size_t i = DOCTOR_SANDBOX + 1; i < DOCTOR_TRIALS; i++)
		if (i != DOCTOR_FIFO || !no_fifo)
			begin_trial(c, tool, d, &plans[i], &d->trials[i]);
	d->domains_outside = count_domains_outside(tool);
	for (size_t i = DOCTOR_SANDBOX + 1; i < DOCTOR_TRIALS; i++)
		if (i != DOCTOR_FIFO || !no_fifo)
			finish_trial(c, &d->trials[i]);
}

void doctor_try(struct cli *c, const char *tool, struct doctor *ret)
{
	struct stat st;

	*ret = (struct doctor){ .owner = UINT64_MAX };
	if (!tool) {
		err_set(&ret->trials[DOCTOR_SANDBOX].failure, ERR_NOT_FOUND,
			"bailiff-tool, which inspects the sandbox from inside, was not found next to bailiffd");
		snprintf(ret->trials[DOCTOR_SANDBOX].advice, sizeof ret->trials[DOCTOR_SANDBOX].advice,
			 "install bailiff-tool and restart bailiffd");
		return;
	}
	if (choose_folder(c, tool, ret) == 0) {
		mem_auto char *made = mem_printf("%s/" MADE_NAME, ret->folder);
		ret->owner = lstat(made, &st) == 0 ? st.st_uid : UINT64_MAX;
		try_rest(c, tool, ret);
	}
	remove_folder(ret);
}

void doctor_done(struct doctor *d)
{
	for (size_t i = 0; i < DOCTOR_TRIALS; i++)
		forget_trial(&d->trials[i]);
	remove_folder(d);
}
