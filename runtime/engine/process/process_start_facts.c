/*
 * The facts of a start, which are durable before its gate opens, and the reply to start_process.
 *
 * One batch has the whole start: the session, thread and turn if they are new, the decision, the sandbox,
 * process.started and the facts of the owner. The first part is encoded while the spawner clones the init
 * (process_launch), the rest when the pid is known. The command therefore never runs without a record of why it was
 * allowed and how it was confined. If the store rejects the batch, the process is released at its gate.
 */

#include "runtime/engine/core/core.h"

#include "policy/rules.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view_task.h"
#include "sandbox/profile.h"

#define RESULT_USUAL 1000 /* initial buffer size of a result; most are shorter */

/* command, commandLine … */
static void process_command_members(const struct process *p, struct jw *w)
{
	jw_kraw(w, "command", p->command_json, strlen(p->command_json));
	if (p->command_ref) {
		jw_kbool(w, "commandTruncated", true);
		jw_kstr(w, "commandRef", p->command_ref);
		jw_kuint(w, "commandBytes", p->command_full.len);
	}
	jw_kopt(w, "commandLine", p->command_line);
}

static void write_command_line(struct jw *w, const void *process, size_t n) { process_command_members(process, w); }

struct json_value json_command_line(const struct process *p) { return json_from_writer(write_command_line, p, 0); }

static void write_layers(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;

	jw_obj(w);
	for (unsigned i = 0; profile_layer_name(i); i++)
		jw_kstr(w, profile_layer_name(i),
			!(p->plan_layers & 1u << i) ? "not_requested"
			: p->layers & 1u << i       ? "enforced"
						    : "unavailable");
	jw_obj_end(w);
}

/* {rows, cols}, or false */
static void process_tty_json(const struct process *p, struct jw *w)
{
	if (!process_has_tty(p)) {
		jw_bool(w, false);
		return;
	}
	jw_obj(w);
	jw_kuint(w, "rows", p->tty_rows);
	jw_kuint(w, "cols", p->tty_cols);
	jw_obj_end(w);
}

static void write_tty(struct jw *w, const void *process, size_t n) { process_tty_json(process, w); }

/* Texts for people about what no error will report. */
static void write_warnings(struct jw *w, const void *process, size_t n)
{
	const struct process *p = process;
	buf_auto struct buf text = BUF_INIT;

	jw_arr(w);
	if (p->cwd_is_private && p->within[0])
		buf_printf(&text, "%s belongs to sandbox %s: files written there are gone when it is closed", p->cwd,
			   p->sandbox_id);
	else if (p->cwd_is_private)
		buf_printf(&text, "%s is private to the command: files written there are gone when it ends", p->cwd);
	if (text.len)
		jw_strn(w, text.data, text.len);
	if (p->sandbox_note) {
		buf_reset(&text);
		buf_printf(&text,
			   "a new sandbox replaces the earlier one of the session, with its /tmp and processes: %s",
			   p->sandbox_note);
		jw_strn(w, text.data, text.len);
	}
	if (p->separate_reason) {
		buf_reset(&text);
		buf_printf(&text,
			   "the command has another sandbox than the session's other commands, without their /tmp, "
			   "localhost and processes: %s",
			   p->separate_reason);
		jw_strn(w, text.data, text.len);
	}
	if (p->denied_shown)
		jw_str(w, PROFILE_DENIED_SHOWN);
	jw_arr_end(w);
}

static bool has_warnings(const struct process *p)
{
	return !p->holder && (p->cwd_is_private || p->sandbox_note || p->separate_reason || p->denied_shown);
}

static int started_fact(const struct process *p, struct transaction *tx, uint64_t paused_ms)
{
	bool tty = process_has_tty(p);
	struct scope s = process_scope(p);

	if (!p->holder)
		s.sandbox = p->sandbox_id;
	return EMIT(process_started, tx, s, .envelope = { .status = "running", .real_us = p->started_real_us },
		    .what = json_command_line(p), .cwd = p->cwd, .tty = json_from_writer(write_tty, p, 0),
		    .pid = p->pid, .startTime = p->start_time, .bootId = p->engine->boot_id,
		    .startedBootNs = p->started_boot_ns, .attempt = opt_int(p->attempt), .planHash = p->plan_hash,
		    .profile = p->profile, .cow = process_has_changes(p),
		    .stdin = tty             ? "tty"
			     : p->stdin_pipe ? "pipe"
					     : "none",
		    .stderr = tty               ? "tty"
			      : p->stderr_merge ? "merge"
						: "separate",
		    .keepTree = p->keep_tree, .within = p->within[0] ? p->within : NULL,
		    .publish = p->ports ? json_from_writer(process_ports_write_wanted, p, 0) : JSON_NONE,
		    .onDisconnect = p->end_with_client ? "terminate" : "keep", .ownsTurn = opt_bool(p->owns_turn),
		    .owner = p->owner ? JSON_OBJECT(owner, .kind = owner_kind_name(p->owner), .id = p->owner_id)
				      : JSON_NONE,
		    .limits = json_limits(&p->limits), .outputRefs = json_stream_names(p),
		    .warnings = has_warnings(p) ? json_from_writer(write_warnings, p, 0) : JSON_NONE,
		    .startedBy = json_requester(&p->by),
		    .permissionMode = permission_mode_name((enum permission_mode)p->mode), .home = p->home,
		    .taskPausedMs = opt_int_if(paused_ms, paused_ms));
}

/* The result of start_process. */
static void start_result(const struct process *p, uint64_t sequence, struct buf *out)
{
	const uint32_t missing = p->plan_layers & ~p->layers; /* not supported by this machine */
	struct jw w = jw_on(out);

	buf_reserve(out, RESULT_USUAL);
	jw_obj(&w);
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "status", "running");
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kstr(&w, "threadId", p->thread_id);
	jw_kstr(&w, "turnId", p->turn_id);
	jw_kstr(&w, "decision", "allow");
	jw_kstr(&w, "sandboxProfile", p->profile);
	jw_kopt(&w, "sandboxId", none_if_empty(p->sandbox_id));
	jw_kopt(&w, "sandboxReplaced", p->sandbox_note);
	if (process_has_changes(p))
		jw_kbool(&w, "cow", true);
	if (p->cwd_is_private)
		jw_kbool(&w, "cwdIsPrivate", true);
	if (has_warnings(p)) {
		jw_key(&w, "warnings");
		write_warnings(&w, p, 0);
	}
	if (missing) {
		jw_karr(&w, "missingLayers");
		for (unsigned i = 0; profile_layer_name(i); i++)
			if (missing & 1u << i)
				jw_str(&w, profile_layer_name(i));
		jw_arr_end(&w);
	}
	jw_kint(&w, "pid", p->pid);
	jw_key(&w, "outputRefs");
	process_stream_names(p, &w);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

static void reject_start(struct process *p, const struct err *why)
{
	struct err e = *why;
	const enum owner_kind owner = p->owner;
	char owner_id[ID_SIZE];
	struct engine *engine = p->engine;

	err_wrap(&e, "record the start");
	reply_err(&p->start, &e, NULL, 0);
	process_waiters_fail(p, &e);
	/* The event frees the process, and the owner is notified after that. */
	memcpy(owner_id, p->owner_id, sizeof owner_id);
	process_event(p, PROCESS_EV_REFUSED);
	if (owner)
		process_owner(engine, owner)->refused(engine, owner_id, &e, NULL, 0);
}

static void on_start_decided(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;

	if (r->status < 0)
		return reject_start(p, r->err);
	p->started_sequence = r->last_sequence;
	/* The session is durable now. Its hooks do not delay this process, whose start was evaluated already. */
	if (p->makes_session && p->hooks_begin)
		p->engine->modules->session_created(
			p->engine, &(struct session_created_notice){
					   .session_id = p->session_id, .uid = p->uid, .by = &p->by, .cwd = p->cwd });
	process_event(p, PROCESS_EV_COMMITTED);
}

void process_submit_start(struct process *p)
{
	const struct json_value profile = json_from_written(p->sandbox_json);
	struct transaction *tx = p->facts;
	buf_auto struct buf result = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t paused_ms;

	p->facts = NULL;
	p->started_boot_ns = p->last_output_ns = engine_now(p->engine);
	p->started_real_us = p->engine->o.ports->real_us(p->engine->o.host);
	if (view_task_paused_ms(p->engine->o.store, p->task_id, p->started_real_us, &paused_ms, &e) < 0) {
		transaction_free(tx);
		return reject_start(p, &e);
	}
	if (p->command_ref)
		transaction_add_output(tx, p->command_ref, p->command_full.data, p->command_full.len);
	EMIT(sandbox_applied, tx, process_scope(p), .envelope.members.sandboxProfile = profile,
	     .sandboxProfile = profile, .layers = json_from_writer(write_layers, p, 0),
	     .violations = p->engine->o.violations ? "enforced" : "unavailable", .planHash = p->plan_hash,
	     .internal = owner_is_internal(p->owner));
	started_fact(p, tx, paused_ms);
	if (p->owner && process_owner(p->engine, p->owner)->started)
		process_owner(p->engine, p->owner)->started(p, tx);
	if (p->given_input)
		process_given_facts(p, tx);
	free(p->given_input);
	p->given_input = NULL;
	/* Without `sequence`: the number is known only after the commit that stores this. */
	if (p->start.idem_key)
		start_result(p, 0, &result);
	transaction_store_reply(tx, &p->start, result.data, result.len);
	transaction_commit_then(tx, 0, on_start_decided, p);
}

void process_answer_start(struct process *p)
{
	buf_auto struct buf result = BUF_INIT;

	if (!p->start.fn)
		return;
	start_result(p, p->started_sequence, &result);
	reply_json(&p->start, result.data, result.len);
}

/* The clone failed: the attempt is recorded like any start, and process_end.c adds its end, which is not rejected. */
void process_submit_unstarted(struct process *p)
{
	struct transaction *tx = p->facts;

	p->facts = NULL;
	transaction_commit_then(tx, STORE_MUST, NULL, NULL);
}
