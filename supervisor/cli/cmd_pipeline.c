/*
 * `pipeline`: runs the steps of a file, each as a process of one session, and reports how they ended.
 *
 * A step has a name, the steps that it needs, and the parameters of start_process, which are passed on as they are:
 * step_check.h checks their names and types first, the daemon the rest. A step may need only earlier ones, so there are
 * no circles. Steps end with this program (onDisconnect).
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "sandbox/violation_text.h"
#include "supervisor/cli/approval.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/junit.h"
#include "supervisor/cli/output_stream.h"
#include "supervisor/cli/process_logs.h"
#include "supervisor/cli/progress.h"
#include "supervisor/cli/step_check.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)
#define STEPS_MAX 1000u
#define PARALLEL_MAX 64u
#define REPORTED_MAX (64u << 10) /* bytes of an output's end in the report */
#define DENIALS_MAX 3u           /* in a step's message */

struct step {
	const char *name;
	json_t *json;
	bool may_fail;
	enum step_state { STEP_WAITING, STEP_RUNNING, STEP_PASSED, STEP_FAILED, STEP_SKIPPED, STEP_STATES } state;
	char process_id[ID_LOOKUP_MAX];
	int exit_code;
	uint64_t duration_ms;
	char message[512];
	char *advice; /* what would allow what its sandbox denied; NULL: nothing was denied, or nothing would */
	struct remote_answer answer; /* of wait_process */
};

struct pipeline {
	struct cli *cli;
	json_t *json;
	const char *name;
	char folder[PATH_MAX]; /* of the file: steps run there */
	char session_id[ID_LOOKUP_MAX];
	struct step *step;
	size_t n, running, parallel;
	bool keep_going, stopped; /* stopped: a step has failed */
	struct progress line;
};

/* ---- the file ---- */

static int read_file(const char *path, struct pipeline *p, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	json_error_t fault;
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *at = buf_reserve(&text, FILE_MAX + 1);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, at, FILE_MAX + 1);

	if (n < 0)
		return err_sys(e, errno, "%s", path);
	if ((size_t)n > FILE_MAX)
		return err_set(e, ERR_INVALID, "%s: more than 1 MiB", path);
	p->json = json_loadb(at, (size_t)n, JSON_REJECT_DUPLICATES, &fault);
	if (!p->json)
		return err_set(e, ERR_INVALID, "%s:%d: %s", path, fault.line, fault.text);
	if (!realpath(path, p->folder))
		return err_sys(e, errno, "%s", path);
	*strrchr(p->folder, '/') = '\0';
	return 0;
}

static const struct step *find_step(const struct pipeline *p, size_t before, const char *name)
{
	for (size_t i = 0; name && i < before; i++)
		if (strcmp(p->step[i].name, name) == 0)
			return &p->step[i];
	return NULL;
}

static int check_step(const struct pipeline *p, size_t at, struct err *e)
{
	const struct step *s = &p->step[at];
	const json_t *needs = json_object_get(s->json, "needs"), *may = json_object_get(s->json, "allowFailure"), *need;
	size_t i;

	if (!s->name || !*s->name || strlen(s->name) > 200)
		return err_set(e, ERR_INVALID, "steps[%zu].name: must be a text of 1 to 200 bytes", at);
	if (find_step(p, at, s->name))
		return err_set(e, ERR_INVALID, "steps[%zu].name: there is another step \"%s\"", at, s->name);
	if (!json_object_get(s->json, "command") == !json_object_get(s->json, "commandLine"))
		return err_set(e, ERR_INVALID, "step \"%s\": needs command (an array) or commandLine (a text)",
			       s->name);
	if ((needs && !json_is_array(needs)) || (may && !json_is_boolean(may)))
		return err_set(e, ERR_INVALID,
			       "step \"%s\": needs must be an array of names, and allowFailure true or false", s->name);
	json_array_foreach (needs, i, need)
		if (!find_step(p, at, json_string_value(need)))
			return err_set(e, ERR_INVALID, "step \"%s\": needs[%zu]: there is no earlier step of that name",
				       s->name, i);
	return 0;
}

static int read_steps(struct pipeline *p, struct err *e)
{
	const json_t *steps = json_object_get(p->json, "steps"), *name = json_object_get(p->json, "name");
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach (p->json, key, v)
		if (strcmp(key, "steps") != 0 && strcmp(key, "name") != 0)
			return err_set(e, ERR_INVALID, "unknown key \"%.64s\"; a pipeline has name and steps", key);
	if (!json_array_size(steps) || json_array_size(steps) > STEPS_MAX)
		return err_set(e, ERR_INVALID, "steps: must be an array of 1 to %u steps", STEPS_MAX);
	if (name && !json_is_string(name))
		return err_set(e, ERR_INVALID, "name: must be a text");
	p->name = name ? json_string_value(name) : "pipeline";
	p->step = mem_zalloc(json_array_size(steps), sizeof(*p->step));
	json_array_foreach (steps, i, v) {
		p->step[i] = (struct step){ .json = v,
					    .name = json_string_value(json_object_get(v, "name")),
					    .may_fail = json_is_true(json_object_get(v, "allowFailure")) };
		p->n = i + 1;
		if (check_step(p, i, e) < 0)
			return -1;
	}
	return 0;
}

/* What the daemon says of the parameters is known only once it is connected. 0, or the exit status. */
static int check_parameters(struct pipeline *p)
{
	static const char *const own[] = { "name", "needs", "allowFailure", NULL };
	static const char *const reserved[] = { "sessionId", "onDisconnect", "idempotencyKey" };
	struct err e = ERR_INIT, why;
	json_auto_t *parameters = step_parameters(p->cli, &e);

	if (!parameters)
		return cli_fail(p->cli, EXIT_FAILED, &e, "pipeline");
	for (size_t i = 0; i < p->n; i++) {
		int r = step_check(parameters, p->step[i].json, own, &e);

		for (size_t k = 0; r == 0 && k < countof(reserved); k++)
			if (json_object_get(p->step[i].json, reserved[k]))
				r = err_set(&e, ERR_INVALID, "%s: the pipeline sets this; remove it", reserved[k]);
		if (r == 0)
			continue;
		err_set(&why, ERR_INVALID, "step \"%s\": %s", p->step[i].name, e.message);
		return cli_fail(NULL, EXIT_USAGE, &why, "pipeline");
	}
	return 0;
}

/* A report that cannot be written is an error before the steps run, not after hours. 0, or the exit status. */
static int check_report(struct cli *c, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	mem_auto char *folder = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");

	if (!path || access(path, W_OK) == 0 || (errno == ENOENT && access(folder, W_OK) == 0))
		return 0;
	return cli_usage(c, "option '--junit': %s: %s", path, strerror(errno));
}

/* ---- running ---- */

/* Its members as parameters of start_process; paths are relative to the file. */
static void write_step(const struct pipeline *p, const struct step *s, struct jw *w)
{
	const char *cwd = json_string_value(json_object_get(s->json, "cwd"));
	mem_auto char *whole = !cwd            ? mem_strdup(p->folder)
			       : cwd[0] == '/' ? mem_strdup(cwd)
					       : mem_printf("%s/%s", p->folder, cwd);
	char real[PATH_MAX];
	const char *key;
	json_t *v;

	json_object_foreach (s->json, key, v) {
		if (strcmp(key, "name") == 0 || strcmp(key, "needs") == 0 || strcmp(key, "allowFailure") == 0 ||
		    strcmp(key, "cwd") == 0)
			continue;
		char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);

		jw_kraw(w, key, text, strlen(text));
		free(text);
	}
	jw_kstr(w, "cwd", realpath(whole, real) ? real : whole);
	jw_kstr(w, "sessionId", p->session_id);
	jw_kstr(w, "onDisconnect", "terminate");
}

static void end_step(struct pipeline *p, struct step *s, enum step_state state, const char *message)
{
	s->state = state;
	const size_t n = strlen(message), most = sizeof(s->message) - 1;
	(void)snprintf(s->message, sizeof(s->message), "%.*s", (int)(n > most ? text_utf8_cut(message, most) : n),
		       message);
	if (state == STEP_FAILED && !s->may_fail)
		p->stopped = true;
}

static void cancel_process(struct pipeline *p, const char *id)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "processId", id);
	jw_kstr(&q.w, "reason", "user");
	(void)request_change(p->cli, &q, "terminate_process");
}

/* Policy asks: the person at the terminal, if there is one; otherwise the step fails. */
static bool is_approved(struct pipeline *p, const char *action_id)
{
	fd_auto int terminal = approval_terminal();

	return terminal >= 0 && approval_ask(p->cli, terminal, action_id, NULL) == 0;
}

static void start_step(struct pipeline *p, struct step *s)
{
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char action[ID_LOOKUP_MAX];

	if (!cli_as_json(p->cli))
		cli_hint("run %s", s->name);
	write_step(p, s, &q.w);
	if (request_change(p->cli, &q, "start_process") < 0) {
		struct exit_status outcome = { .status = EXIT_BAILIFF };

		if (q.answer.error.type != JT_NONE)
			exit_status_of_error(q.answer.error, &outcome);
		s->exit_code = outcome.status;
		end_step(p, s, STEP_FAILED, q.e.message);
		return;
	}
	jval_str(jval_get(q.result, "processId"), s->process_id, sizeof(s->process_id));
	jval_str(jval_get(q.result, "actionId"), action, sizeof(action));
	if (jval_is_str(jval_get(q.result, "status"), "waiting_permission") && !is_approved(p, action)) {
		cancel_process(p, s->process_id);
		s->exit_code = EXIT_NOT_EXECUTABLE;
		end_step(p, s, STEP_FAILED, "it needs an approval");
		return;
	}
	s->state = STEP_RUNNING;
	p->running++;
	jw_obj(&w);
	jw_kstr(&w, "processId", s->process_id);
	jw_obj_end(&w);
	remote_send(p->cli->remote, "wait_process", &params, remote_answer_fill, &s->answer);
}

/* Whether a step can start: what it needs has passed. A step whose need failed is skipped. */
static bool is_ready(struct pipeline *p, struct step *s)
{
	const json_t *need;
	bool ready = true;
	size_t i;

	json_array_foreach (json_object_get(s->json, "needs"), i, need) {
		const struct step *other = find_step(p, p->n, json_string_value(need));

		if (other->state == STEP_SKIPPED || (other->state == STEP_FAILED && !other->may_fail)) {
			(void)snprintf(s->message, sizeof(s->message), "\"%.200s\" has not passed", other->name);
			s->state = STEP_SKIPPED;
			return false;
		}
		ready &= other->state == STEP_PASSED || other->state == STEP_FAILED;
	}
	return ready;
}

/* What it printed, and one line. */
static void report_step(struct pipeline *p, struct step *s)
{
	const struct process_logs how = { 0 };
	char took[16];

	if (cli_as_json(p->cli))
		return;
	progress_clear(&p->line);
	if (s->process_id[0])
		(void)process_logs(p->cli, s->process_id, &how);
	text_format_duration(s->duration_ms, took);
	if (s->state == STEP_PASSED)
		cli_hint("ok %s (%s)", s->name, took);
	else
		cli_hint("%s %s (%s): %s", s->may_fail ? "failed (allowed)" : "FAILED", s->name, took, s->message);
	if (s->advice)
		cli_hint("  %s", s->advice);
}

static void write_list(struct jw *w, const char *key, const char *element)
{
	jw_karr(w, key);
	jw_str(w, element);
	jw_arr_end(w);
}

/* The member of a step that would allow it, as it stands in the file; or what a person can do. */
static char *advice_for(const struct violation_needs *n)
{
	buf_auto struct buf host = BUF_INIT, member = BUF_INIT;
	struct jw w = jw_on(&member);
	const char *person = violation_needs_person(n);

	violation_needs_host(n, &host);
	bool network = host.len || n->network;
	jw_obj(&w);
	if (n->write)
		write_list(&w, "writeRoots", n->folder[0] == '/' ? n->folder : "PATH");
	if (n->read)
		write_list(&w, "readRoots", n->file[0] == '/' ? n->file : "PATH");
	if (network) {
		jw_kstr(&w, "network", "allow");
		write_list(&w, "allowHosts", host.len ? host.data : "HOST");
	}
	jw_obj_end(&w);
	if (!n->write && !n->read && !network)
		return person ? mem_strdup(person) : NULL;
	return mem_printf("\"sandbox\": %s in the step allows it (where the policy permits it)%s%s", member.data,
			  person ? "; " : "", person ? person : "");
}

/* "; denied: lookup example.com (no network)" for each of the first different ones. */
static void describe_denials(struct step *s, struct buf *out)
{
	struct violation_needs needs = { 0 };
	size_t n = 0;

	for (struct jiter it = jiter_on(jval_get(s->answer.result, "violations")); jiter_next(&it);) {
		buf_auto struct buf line = BUF_INIT;

		buf_str(&line, violation_text_is_hint(it.value) ? "; probably denied: " : "; denied: ");
		violation_text_describe(it.value, &line);
		violation_needs_add(&needs, it.value);
		if (n < DENIALS_MAX && !strstr(buf_cstr(out), line.data)) {
			buf_append(out, line.data, line.len);
			n++;
		}
	}
	s->advice = advice_for(&needs);
}

static void take_result(struct pipeline *p, struct step *s)
{
	struct exit_status outcome = { .status = EXIT_BAILIFF };
	buf_auto struct buf message = BUF_INIT;

	p->running--;
	(void)exit_status_of_process(s->answer.result, &outcome);
	s->exit_code = outcome.status;
	s->duration_ms = jval_uint(jval_get(s->answer.result, "durationMs"), 0);
	if (outcome.status) {
		buf_printf(&message, "exit status %d%s%.400s", outcome.status, outcome.note[0] ? ": " : "",
			   outcome.note);
		if (outcome.parameter)
			buf_printf(&message, " (%s)", outcome.parameter);
		describe_denials(s, &message);
	}
	end_step(p, s, outcome.status ? STEP_FAILED : STEP_PASSED, buf_cstr(&message));
	report_step(p, s);
}

static void draw_progress(struct pipeline *p)
{
	uint64_t n[STEP_STATES] = { 0 };

	for (size_t i = 0; i < p->n; i++)
		n[p->step[i].state]++;
	progress_draw(&p->line, NULL, p->n - n[STEP_WAITING] - n[STEP_RUNNING], p->n, n[STEP_RUNNING], n[STEP_FAILED]);
}

/* Whether a step has ended. The requests of its report may receive the answers of others. */
static bool take_results(struct pipeline *p)
{
	bool taken = false;

	for (size_t i = 0; i < p->n; i++) {
		if (p->step[i].state != STEP_RUNNING || !p->step[i].answer.done)
			continue;
		take_result(p, &p->step[i]);
		taken = true;
	}
	return taken;
}

/* Until no step runs and none can start. */
static int run_steps(struct pipeline *p, struct err *e)
{
	progress_begin(&p->line, p->cli);
	for (;;) {
		for (size_t i = 0; i < p->n; i++) {
			struct step *s = &p->step[i];

			if (s->state == STEP_WAITING && p->stopped && !p->keep_going)
				end_step(p, s, STEP_SKIPPED, "an earlier step has failed");
			if (s->state == STEP_WAITING && p->running < p->parallel && is_ready(p, s)) {
				start_step(p, s);
				if (s->state == STEP_FAILED)
					report_step(p, s);
			}
		}
		if (take_results(p))
			continue;
		if (!p->running) {
			progress_clear(&p->line);
			return 0;
		}
		draw_progress(p);
		struct pollfd fd;
		int timeout = remote_prepare_poll(p->cli->remote, true, &fd);
		if (p->line.on && (timeout < 0 || timeout > PROGRESS_MS))
			timeout = PROGRESS_MS;
		if (poll(&fd, 1, timeout) < 0)
			fd.revents = 0;
		if (remote_process_poll(p->cli->remote, fd.revents, e) < 0)
			return -1;
	}
}

/* ---- reports ---- */

/* The end of one stream. */
static void read_end(struct pipeline *p, const struct step *s, const char *stream, struct buf *out)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct output_piece piece = { 0 };
	struct err ignored = ERR_INIT;
	char ref[ID_LOOKUP_MAX];

	jw_kstr(&q.w, "processId", s->process_id);
	if (!s->process_id[0] || request_read(p->cli, &q, "get_process") < 0)
		return;
	struct jval output = jval_get(jval_get(q.result, "outputs"), stream);
	uint64_t bytes = jval_uint(jval_get(output, "bytes"), 0);
	jval_str(jval_get(output, "outputRef"), ref, sizeof(ref));
	if (bytes && output_read(p->cli, ref, bytes > REPORTED_MAX ? bytes - REPORTED_MAX : 0, REPORTED_MAX, &piece,
				 &ignored) == 0)
		buf_append(out, buf_cstr(&piece.bytes), piece.bytes.len);
	buf_done(&piece.bytes);
}

static int write_junit(struct pipeline *p, const char *path)
{
	struct junit_case *cases = mem_zalloc(p->n, sizeof(*cases));
	struct buf *texts = mem_zalloc(2 * p->n, sizeof(*texts));
	buf_auto struct buf xml = BUF_INIT;
	fd_auto int fd = -1;

	for (size_t i = 0; i < p->n; i++) {
		const struct step *s = &p->step[i];

		read_end(p, s, "stdout", &texts[2 * i]);
		read_end(p, s, "stderr", &texts[2 * i + 1]);
		cases[i] = (struct junit_case){ .name = s->name,
						.duration_ms = s->duration_ms,
						.result = s->state == STEP_PASSED                   ? JUNIT_PASSED
							  : s->state == STEP_SKIPPED || s->may_fail ? JUNIT_SKIPPED
												    : JUNIT_FAILED,
						.message = s->message,
						.out = &texts[2 * i],
						.err = &texts[2 * i + 1] };
	}
	junit_write(p->name, cases, p->n, &xml);
	for (size_t i = 0; i < 2 * p->n; i++)
		buf_done(&texts[i]);
	free(texts);
	free(cases);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd >= 0 && fd_write_all(fd, xml.data, xml.len) == 0)
		return 0;
	cli_error("%s: %s", path, strerror(errno));
	return EXIT_FAILED;
}

static int print_json(const struct pipeline *p)
{
	static const char *const states[] = {
		[STEP_PASSED] = "passed", [STEP_FAILED] = "failed", [STEP_SKIPPED] = "skipped"
	};
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kstr(&w, "name", p->name);
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kstr(&w, "status", p->stopped ? "failed" : "passed");
	jw_karr(&w, "steps");
	for (size_t i = 0; i < p->n; i++) {
		const struct step *s = &p->step[i];

		jw_obj(&w);
		jw_kstr(&w, "name", s->name);
		jw_kstr(&w, "status", states[s->state] ? states[s->state] : "skipped");
		if (s->process_id[0])
			jw_kstr(&w, "processId", s->process_id);
		if (s->state != STEP_SKIPPED) {
			jw_kint(&w, "exitCode", s->exit_code);
			jw_kuint(&w, "durationMs", s->duration_ms);
		}
		jw_kopt(&w, "message", s->message[0] ? s->message : NULL);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	return format_record(jval_of(out.data, out.len), true);
}

/* ---- the verb ---- */

static int run_pipeline(struct pipeline *p)
{
	request_auto struct request q = REQUEST_INIT(q);
	const char *junit = opts_get(&p->cli->opts, OPT_pipeline_JUNIT);
	struct err e = ERR_INIT;
	size_t passed = 0;
	int status = 0;

	if ((status = check_report(p->cli, junit)))
		return status;
	if (cli_connect(p->cli, CLI_START_ALWAYS) < 0)
		return EXIT_FAILED;
	if ((status = check_parameters(p)))
		return status;
	jw_kstr(&q.w, "title", p->name);
	if (request_change(p->cli, &q, "create_session") < 0)
		return cli_fail(p->cli, EXIT_FAILED, &q.e, "pipeline");
	jval_str(jval_get(q.result, "sessionId"), p->session_id, sizeof(p->session_id));
	if (run_steps(p, &e) < 0)
		return cli_fail(p->cli, EXIT_FAILED, &e, "pipeline");
	for (size_t i = 0; i < p->n; i++)
		passed += p->step[i].state == STEP_PASSED;
	if (junit)
		status = write_junit(p, junit);
	if (cli_as_json(p->cli))
		status |= print_json(p);
	else
		cli_hint("%zu of %zu steps passed; session %s", passed, p->n, p->session_id);
	return p->stopped ? EXIT_FAILED : status;
}

int cmd_pipeline(struct cli *c)
{
	const char *parallel = opts_get(&c->opts, OPT_pipeline_PARALLEL);
	struct pipeline p = { .cli = c, .parallel = 1, .keep_going = opts_has(&c->opts, OPT_pipeline_KEEP_GOING) };
	struct err e = ERR_INIT;
	int status;

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one file at a time" : "which file?");
	if (parallel) {
		char *end;

		p.parallel = strtoul(parallel, &end, 10);
		if (*parallel < '0' || *parallel > '9' || *end || !p.parallel || p.parallel > PARALLEL_MAX)
			return cli_usage(c, "option '--parallel': '%s' is not a number from 1 to %u", parallel,
					 PARALLEL_MAX);
	}
	if (read_file(c->opts.args[0], &p, &e) < 0 || read_steps(&p, &e) < 0)
		status = cli_fail(c, EXIT_USAGE, &e, "pipeline");
	else
		status = run_pipeline(&p);
	for (size_t i = 0; i < p.n; i++) {
		remote_answer_done(&p.step[i].answer);
		free(p.step[i].advice);
	}
	free(p.step);
	json_decref(p.json);
	return status;
}
