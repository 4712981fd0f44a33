/*
 * Verbs that follow tasks: `run`, `logs` and `wait`. A task's document says how it is; its output is read from the node
 * that runs or ran it, in pieces, by signed requests. Both are polled, faster while something happens.
 */

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/change.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/connection.h"
#include "supervisor/fleet/client/queue_hint.h"
#include "supervisor/fleet/client/submit.h"
#include "supervisor/fleet/client/task_view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#define PAUSE_MIN_MS 25
#define PAUSE_MAX_MS 250
#define TOGETHER_MIN 32u /* tasks that are read at once instead of one by one */
#define SILENT_MS 15000u /* a node that has not answered for this time is reported */
#define QUEUED_MS 3000u  /* a task that is queued for longer is explained */
#define EXIT_INTERRUPTED 130

static volatile sig_atomic_t interrupts;

static void on_interrupt(int sig) { interrupts++; }

enum { STDOUT, STDERR, STREAMS };
static const char *const stream_names[STREAMS] = { "stdout", "stderr" };

struct follow {
	struct connection *x;
	const char *only; /* this stream alone, or NULL */
	bool sanitize, json;
	uint64_t attempt; /* whose output is shown */
	uint64_t offset[STREAMS];
	bool ended[STREAMS];
	struct buf cut[STREAMS]; /* the start of a character that a piece split */
	uint64_t queued_since;   /* boot time in ms; 0: it is not queued */
	bool queue_explained;
	uint64_t silent_since; /* boot time in ms; 0: the node answers */
	bool silence_reported;
};

/* ---- output ---- */

/* At the end of the output a character that was not completed is shown as it is. */
static int write_piece(struct follow *f, int stream, const struct buf *bytes)
{
	buf_auto struct buf whole = BUF_INIT, shown = BUF_INIT;
	struct buf *cut = &f->cut[stream];

	buf_append(&whole, buf_cstr(cut), cut->len);
	buf_append(&whole, buf_cstr(bytes), bytes->len);
	size_t n = f->ended[stream] || !(f->json || f->sanitize) ? whole.len
								 : text_utf8_cut(buf_cstr(&whole), whole.len);
	buf_reset(cut);
	buf_append(cut, buf_cstr(&whole) + n, whole.len - n);
	if (f->json)
		format_output_line(stream_names[stream], buf_cstr(&whole), n, &shown);
	else if (f->sanitize)
		text_sanitize(buf_cstr(&whole), n, &shown);
	else
		buf_append(&shown, buf_cstr(&whole), n);
	return format_write(f->json || stream == STDOUT ? STDOUT_FILENO : STDERR_FILENO, buf_cstr(&shown), shown.len);
}

static void forget_cut(struct follow *f)
{
	for (int s = 0; s < STREAMS; s++)
		buf_done(&f->cut[s]);
}

/* One piece of one stream. 1: there was something; 0: nothing new; −1: the node does not answer or rejected it (e). */
static int read_piece(struct follow *f, const struct fleet_task *t, int stream, struct err *e)
{
	buf_auto struct buf header = BUF_INIT, bytes = BUF_INIT;
	mem_auto char *args = mem_printf("\"stream\":\"%s\",\"offset\":%llu,\"limit\":%u", stream_names[stream],
					 (unsigned long long)f->offset[stream], FLEET_CHUNK / 2);
	int r = connection_ask(f->x, t, "output", args, &header, &bytes, e);

	if (r == 1)
		return err_set(e, ERR_UNAVAILABLE, "node %s does not answer", t->node);
	if (r < 0)
		return -1;
	struct jval head = jval_of(header.data, header.len);
	f->offset[stream] = jval_uint(jval_get(head, "next"), f->offset[stream] + bytes.len);
	f->ended[stream] = jval_bool(jval_get(head, "end"), false);
	if (write_piece(f, stream, &bytes) < 0)
		return err_sys(e, errno, "write");
	return bytes.len > 0;
}

/*
 * Everything that is there now. 1: something was shown; 0: nothing new. −1: the node failed to answer: while the task
 * runs that is a matter of patience, afterwards an error.
 */
static int read_output(struct follow *f, const struct fleet_task *t, struct err *e)
{
	int any = 0, r;

	if (t->attempt != f->attempt) { /* another attempt has an output of its own */
		if (f->attempt)
			cli_error("fleet: attempt %llu begins on node %s", (unsigned long long)t->attempt, t->node);
		f->attempt = t->attempt;
		memset(f->offset, 0, sizeof(f->offset));
		memset(f->ended, 0, sizeof(f->ended));
		forget_cut(f);
	}
	for (int s = 0; s < STREAMS; s++) {
		if (f->only && strcmp(f->only, stream_names[s]) != 0)
			continue;
		while (!f->ended[s] && interrupts < 2 && (r = read_piece(f, t, s, e)))
			if (r < 0)
				return -1;
			else
				any = 1;
	}
	return any;
}

/* Reports once that the node is silent. */
static void note_silence(struct follow *f, const struct fleet_task *t, const struct err *e)
{
	const uint64_t now = clock_boot_ms();

	if (!f->silent_since)
		f->silent_since = now;
	if (f->silence_reported || now - f->silent_since < SILENT_MS)
		return;
	f->silence_reported = true;
	cli_error("fleet: %s", e->message);
	cli_hint("if it does not return within its lease (%llu s), task %s is lost",
		 (unsigned long long)t->spec.lease_ms / 1000, t->spec.id);
}

/* Explains once why nothing happens. */
static void note_queue(struct follow *f, const struct fleet_task *t)
{
	buf_auto struct buf why = BUF_INIT;
	const uint64_t now = clock_boot_ms();

	if (t->state != FLEET_QUEUED)
		f->queued_since = 0;
	else if (!f->queued_since)
		f->queued_since = now;
	else if (!f->queue_explained && now - f->queued_since > QUEUED_MS) {
		f->queue_explained = true;
		queue_hint(f->x, t, &why);
		cli_error("fleet: task %s is queued: %s", t->spec.id, buf_cstr(&why));
		if (f->json)
			cli_print_notice();
	}
}

/* ---- following one task ---- */

/* Ctrl-C: the first cancels the task, the second leaves. True: leave. */
static bool handle_interrupt(struct follow *f, const char *id, bool cancels, int *handled)
{
	struct err e = ERR_INIT;

	if (interrupts == *handled)
		return false;
	*handled = interrupts;
	if (!cancels || interrupts > 1)
		return true;
	if (change_cancel(f->x, id, &e) < 0)
		cli_error("fleet: cancel %s: %s", id, e.message);
	return false;
}

/*
 * Shows the output until the task has ended. The last state in *ret. 0, or the exit status after an error or an
 * interruption.
 */
static int follow_task(struct follow *f, const char *id, bool cancels, struct fleet_entry *ret)
{
	int pause = PAUSE_MIN_MS, handled = 0;

	for (;;) {
		struct err e = ERR_INIT;
		struct fleet_entry t = { 0 };
		int r = connection_get(f->x, id, &t, &e), shown = 0;

		if (r == 1)
			err_set(&e, ERR_NOT_FOUND, "task %s was removed", id);
		if (r && (r == 1 || e.code != ERR_UNAVAILABLE))
			return cli_fail(f->x->cli, EXIT_BAILIFF, &e, "fleet");
		if (r == 0)
			note_queue(f, &t.task);
		if (r == 0 && t.task.node[0] && t.task.state != FLEET_QUEUED) {
			shown = read_output(f, &t.task, &e);
			if (shown < 0 && e.code == ERR_SYS && e.sys == EPIPE)
				interrupts = 2;
			else if (shown < 0)
				note_silence(f, &t.task, &e);
			else
				f->silent_since = 0;
		}
		if (r == 0 && fleet_state_ended(t.task.state)) {
			if (shown < 0 && t.task.state != FLEET_LOST)
				cli_error("fleet: the output is not available: %s", e.message);
			*ret = t;
			return 0;
		}
		fleet_entry_done(&t);
		if (handle_interrupt(f, id, cancels, &handled))
			return EXIT_INTERRUPTED;
		pause = shown > 0 ? PAUSE_MIN_MS : pause * 5 / 4 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause * 5 / 4;
		poll(NULL, 0, pause);
	}
}

static void catch_interrupts(void)
{
	const struct sigaction on = { .sa_handler = on_interrupt };

	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
}

/* Says how it ended, and returns the exit status for it. */
static int report_end(const struct fleet_task *t)
{
	char note[512];
	int status = task_view_exit(t, note);

	if (note[0])
		cli_error("fleet: %s", note);
	if (t->state == FLEET_LOST)
		cli_hint("it may have run, partly or whole; bailiff fleet retry %s runs it again", t->spec.id);
	return status;
}

static int print_task(const struct fleet_task *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	task_view_write(t, true, &w);
	return format_record(jval_of(text.data, text.len), true);
}

int fleet_run(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entry_auto struct fleet_entry t = { 0 };
	struct follow f = { .x = &x, .json = cli_as_json(c) };
	char id[FLEET_ID_MAX + 1];
	int status;

	if ((status = submit_check(c)) || (status = connection_open(c, true, &x)))
		return status == EXIT_USAGE ? EXIT_USAGE : EXIT_BAILIFF;
	catch_interrupts();
	if ((status = submit_task(&x, id)))
		return status == EXIT_USAGE ? EXIT_USAGE : EXIT_BAILIFF;
	status = follow_task(&f, id, true, &t);
	forget_cut(&f);
	if (status) {
		if (status == EXIT_INTERRUPTED)
			cli_hint("task %s: bailiff fleet show %s", id, id);
		return status;
	}
	if (f.json)
		(void)print_task(&t.task);
	return report_end(&t.task);
}

int fleet_logs(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	fleet_entry_auto struct fleet_entry t = { 0 };
	struct follow f = { .x = &x,
			    .json = cli_as_json(c),
			    .only = opts_get(&c->opts, OPT_fleet_STREAM),
			    .sanitize = !opts_has(&c->opts, OPT_fleet_RAW) };
	struct err e = ERR_INIT;
	int status;

	if (f.only && strcmp(f.only, "stdout") != 0 && strcmp(f.only, "stderr") != 0)
		return cli_usage(c, "--stream: '%s' is neither stdout nor stderr", f.only);
	if ((status = connection_open(c, true, &x)) || (status = connection_find(&x, false, &list)))
		return status;
	if (opts_has(&c->opts, OPT_fleet_FOLLOW)) {
		catch_interrupts();
		status = follow_task(&f, list.v[0].task.spec.id, false, &t);
		forget_cut(&f);
		return status == EXIT_BAILIFF ? EXIT_FAILED : status;
	}
	if (!list.v[0].task.node[0]) {
		cli_error("fleet logs: task %s has not started", list.v[0].task.spec.id);
		return EXIT_FAILED;
	}
	status = read_output(&f, &list.v[0].task, &e);
	forget_cut(&f);
	if (status < 0 && e.sys != EPIPE)
		return cli_fail(c, EXIT_FAILED, &e, "fleet logs");
	return 0;
}

/* ---- wait ---- */

struct outcome {
	size_t left, counts[FLEET_LOST + 1];
};

/* Reads one task again. A server that does not answer is asked again later. 0, or the exit status. */
static int refresh_task(struct connection *x, struct fleet_entry *t)
{
	struct fleet_entry now = { 0 };
	struct err e = ERR_INIT;
	int r = connection_get(x, t->task.spec.id, &now, &e);

	if (r == 1)
		err_set(&e, ERR_NOT_FOUND, "task %s was removed", t->task.spec.id);
	if (r && (r == 1 || e.code != ERR_UNAVAILABLE))
		return cli_fail(x->cli, EXIT_FAILED, &e, "fleet wait");
	if (r == 0) {
		fleet_entry_done(t);
		*t = now;
	}
	return 0;
}

/* Reads again the tasks that had not ended, one by one, or all at once if they are many. 0, or the exit status. */
static int refresh(struct connection *x, struct fleet_entries *list, struct outcome *o)
{
	fleet_entries_auto struct fleet_entries all = { 0 };
	const bool together = o->left > TOGETHER_MIN;
	struct err e = ERR_INIT;
	size_t at = 0;
	int status;

	if (together && connection_list(x, NULL, &all, &e) < 0)
		return e.code == ERR_UNAVAILABLE ? 0 : cli_fail(x->cli, EXIT_FAILED, &e, "fleet wait");
	*o = (struct outcome){ 0 };
	for (size_t i = 0; i < list->n; i++) {
		struct fleet_entry *t = &list->v[i];

		/* A job's tasks are in the same order in both lists; others are found one by one. */
		for (size_t k = 0; together && k < all.n && !fleet_state_ended(t->task.state); k++, at++)
			if (strcmp(all.v[at % all.n].task.spec.id ? all.v[at % all.n].task.spec.id : "",
				   t->task.spec.id) == 0) {
				fleet_entry_done(t);
				*t = all.v[at % all.n];
				all.v[at % all.n] = (struct fleet_entry){ 0 };
				break;
			}
		if (!together && !fleet_state_ended(t->task.state) && (status = refresh_task(x, t)))
			return status;
		o->counts[t->task.state]++;
		o->left += !fleet_state_ended(t->task.state);
	}
	return 0;
}

static int print_outcome(struct cli *c, const struct fleet_entries *list, const struct outcome *o)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	if (cli_as_json(c)) {
		jw_arr(&w);
		for (size_t i = 0; i < list->n; i++)
			task_view_write(&list->v[i].task, false, &w);
		jw_arr_end(&w);
		return format_record(jval_of(text.data, text.len), true);
	}
	if (list->n == 1)
		return 0;
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].task.state != FLEET_COMPLETED)
			buf_printf(&text, "%s %s %s\n", list->v[i].task.spec.id,
				   fleet_state_name(list->v[i].task.state), list->v[i].task.reason);
	for (int s = FLEET_COMPLETED; s <= FLEET_LOST; s++)
		if (o->counts[s])
			buf_printf(&text, "%s%zu %s", text.len && text.data[text.len - 1] != '\n' ? ", " : "",
				   o->counts[s], fleet_state_name((enum fleet_state)s));
	buf_byte(&text, '\n');
	return format_out(&text);
}

int fleet_wait(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	const char *timeout = opts_get(&c->opts, OPT_fleet_TIMEOUT);
	struct outcome o = { 0 };
	uint64_t limit = UINT64_MAX, began = clock_boot_ms();
	struct err e = ERR_INIT;
	int status, pause = PAUSE_MIN_MS;

	if (timeout && text_duration_ms(timeout, &limit, &e) < 0)
		return cli_usage(c, "--timeout: %s", e.message);
	if ((status = connection_open(c, false, &x)) || (status = connection_find(&x, true, &list)))
		return status;
	for (o.left = list.n;;) {
		if ((status = refresh(&x, &list, &o)))
			return status;
		if (!o.left || clock_boot_ms() - began >= limit)
			break;
		poll(NULL, 0, pause);
		pause = pause * 5 / 4 > PAUSE_MAX_MS ? PAUSE_MAX_MS : pause * 5 / 4;
	}
	if (o.left) {
		cli_error("fleet wait: %zu of %zu tasks have not ended", o.left, list.n);
		return EXIT_TIME_LIMIT;
	}
	if ((status = print_outcome(c, &list, &o)))
		return status;
	return list.n == 1 ? report_end(&list.v[0].task) : o.counts[FLEET_COMPLETED] == list.n ? 0 : EXIT_FAILED;
}
