#ifndef BAILIFF_TEST_CONTROL_FAKE_ENGINE_H
#define BAILIFF_TEST_CONTROL_FAKE_ENGINE_H

/*
 * An engine that records its requests and replies as the test configures. Included by one file of a program, which is
 * linked without the real engine: a function that control uses and that is missing here is an undefined reference.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/call/mcp_server.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/loop/loop.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/process/evidence_facts.h"
#include "runtime/engine/process/process_ports.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"
#include "runtime/event/event.h"
#include "supervisor/host/cow_changes.h"
#include "supervisor/host/screens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake_engine {
	unsigned calls; /* requests of any kind */
	char seen[256]; /* the last one */
	bool hold;      /* keep the callback instead of replying */
	engine_reply_fn fn;
	void *ctx;
	const char *answer; /* NULL: {"ok":true} */
	const char *error;  /* an ERR_SANDBOX with this message instead */
	bool had_key, repeated;
	unsigned gone, follows;
} fake;

static inline void fake_answer(engine_reply_fn fn, void *ctx)
{
	const char *json = fake.answer ? fake.answer : "{\"ok\":true}";
	struct err e = ERR_INIT;
	if (fake.error) {
		err_set(&e, ERR_SANDBOX, "%s", fake.error);
		fn(ctx, &e, "\"stage\":\"cwd\"", strlen("\"stage\":\"cwd\""));
	} else {
		fn(ctx, NULL, json, strlen(json));
	}
}

static inline void fake_request(const char *what, const char *about, const struct caller *c, engine_reply_fn fn,
				void *ctx)
{
	fake.calls++;
	fake.had_key = c->idem_key != NULL;
	fake.repeated = c->repeated;
	snprintf(fake.seen, sizeof fake.seen, "%s %s", what, about ? about : "");
	if (!fake.hold) {
		fake_answer(fn, ctx);
		return;
	}
	fake.fn = fn;
	fake.ctx = ctx;
}

static inline void fake_release(void)
{
	if (!fake.fn)
		abort();
	engine_reply_fn fn = fake.fn;
	fake.fn = NULL;
	fake_answer(fn, fake.ctx);
}

void engine_default_limits(const struct engine *g, struct process_limits *ret)
{
	*ret = (struct process_limits){ LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE };
}
void engine_start_process(struct engine *g, const struct start_request *r, const struct caller *c, engine_reply_fn fn,
			  void *ctx)
{
	fake_request("start", r->command_line ? r->command_line : r->argv[0], c, fn, ctx);
}
void engine_write_stdin(struct engine *g, const char *id, const void *p, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	fake_request("write", id, c, fn, ctx);
}
void engine_type_stdin(struct engine *g, const char *id, const void *p, size_t n, bool eof, const struct caller *c,
		       engine_reply_fn fn, void *ctx)
{
	fake_request("write_checked", id, c, fn, ctx);
}
void engine_close_stdin(struct engine *g, const char *id, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("close", id, c, fn, ctx);
}
void engine_close_output(struct engine *g, const char *id, int stream, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	fake_request("close_output", id, c, fn, ctx);
}
int engine_live_output(struct engine *g, const char *id, int stream, const struct caller *c, const char **ret_ref,
		       uint64_t *ret_kept, struct err *e)
{
	*ret_ref = "out_1";
	*ret_kept = UINT64_MAX;
	return 0;
}
int engine_terminal_size(struct engine *g, const char *id, const struct caller *c, uint32_t *ret_rows,
			 uint32_t *ret_cols, struct err *e)
{
	*ret_rows = 24;
	*ret_cols = 80;
	return 0;
}
void engine_resize_process(struct engine *g, const char *id, uint32_t rows, uint32_t cols, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	fake_request("resize", id, c, fn, ctx);
}
void engine_signal_process(struct engine *g, const char *id, int sig, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	fake_request("signal", id, c, fn, ctx);
}
void engine_terminate_process(struct engine *g, const char *id, const char *reason, int sig, uint64_t grace_ms,
			      const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("terminate", id, c, fn, ctx);
}
void engine_wait_process(struct engine *g, const char *id, uint64_t ms, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	fake_request("wait", id, c, fn, ctx);
}
void engine_wait_command(struct engine *g, const char *id, uint64_t ms, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	fake_request("wait", id, c, fn, ctx);
}
void engine_wait_briefly(struct engine *g, const char *id, uint64_t ms, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	fake_request("wait", id, c, fn, ctx);
}
void engine_create_session(struct engine *g, const struct session_request *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	fake_request("session", r->title, c, fn, ctx);
}
/* Requests of which tests only check the subject: FAKE(function, type and name of the request, its subject). */
#define FAKE(function, request, about)                                                                  \
	void function(struct engine *g, request, const struct caller *c, engine_reply_fn fn, void *ctx) \
	{                                                                                               \
		fake_request(#function, about, c, fn, ctx);                                             \
	}
#define AND ,
FAKE(engine_update_session, const struct session_change *r, r->session_id)
FAKE(engine_resume_thread, const char *session_id AND const char *thread_id, thread_id)
FAKE(engine_submit_turn, const struct turn_request *r, r->turn_id)
FAKE(engine_steer_turn, const struct turn_steer *r, r->turn_id)
FAKE(engine_complete_turn, const struct turn_verdict *v, v->turn_id)
FAKE(engine_fail_turn, const struct turn_verdict *v, v->turn_id)
FAKE(engine_interrupt_turn, const struct turn_interrupt *r, r->turn_id)
FAKE(engine_remove_queued_turn, const char *turn_id AND const char *reason, turn_id)
FAKE(engine_claim_turn, const char *turn_id, turn_id)
FAKE(engine_promote_queued_turn, const char *turn_id, turn_id)
FAKE(engine_register_tools, const struct json_t *tools AND const char *session_id, session_id)
FAKE(engine_invoke_tool, const struct tool_request *r, r->tool)
FAKE(engine_report_tool_call, const struct tool_report *r, r->call_id)
FAKE(engine_request_action, const struct action_request *r, r->action_type)
FAKE(engine_respond_action, const struct action_answer *r, r->action_id)
FAKE(engine_tool_inventory, const struct inventory_query *r, r->session_id)
void engine_tool_inventory_now(struct engine *g, const char *session_id, const struct caller *c, struct buf *out)
{
	buf_str(out, "{\"tools\":[]}");
}

void engine_emit_events(struct engine *g, const struct emit_event *ev, size_t n, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	char about[128];
	snprintf(about, sizeof about, "%zu %s %s %.*s %.*s", n, ev[0].type, ev[0].ids[ID_SESSION],
		 (int)ev[0].payload_len, ev[0].payload, (int)ev[0].members_len, ev[0].members ? ev[0].members : "");
	fake_request("emit", about, c, fn, ctx);
}
#define TASK_METHOD(name)                                                                                      \
	void engine_##name(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx)                                                                          \
	{                                                                                                      \
		fake_request(#name, json_string_value(json_object_get(params, "taskId")), c, fn, ctx);         \
	}
TASK_METHODS(TASK_METHOD)
JOB_METHODS(TASK_METHOD)
#undef TASK_METHOD

void engine_client_connected(struct engine *g, const struct caller *c) {}

void engine_client_disconnected(struct engine *g, uint64_t connection) { fake.gone++; }
void engine_client_follows(struct engine *g, const char *id, const struct caller *c) { fake.follows++; }
const char *engine_tool_program(const struct engine *g) { return "/usr/libexec/bailiff/bailiff-tool"; }

void engine_budgets(struct engine *g, uint32_t uid, struct jw *w)
{
	jw_karr(w, "budgets");
	jw_arr_end(w);
}

void engine_counts_get(const struct engine *g, struct engine_counts *ret)
{
	*ret = (struct engine_counts){ .live = 3 };
}

/* There are no terminals. */
void screens_submit(struct screens *s, struct screens_request *r, screens_fn fn, void *ctx) { abort(); }
void screens_client_disconnected(struct screens *s, uint64_t connection) { abort(); }
void engine_channel_token(const struct engine *g, const char *seed, char ret[CHANNEL_TOKEN_TEXT])
{
	snprintf(ret, CHANNEL_TOKEN_TEXT, "token of %s", seed);
}
void engine_connect_channel(struct engine *g, const struct channel_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	fake_request("connect", r->transport, c, fn, ctx);
}
void engine_reconnect_channel(struct engine *g, const char *id, uint64_t acked, const char *token,
			      const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("reconnect", id, c, fn, ctx);
}
void engine_disconnect_channel(struct engine *g, const char *id, const char *reason, const struct caller *c,
			       engine_reply_fn fn, void *ctx)
{
	fake_request("disconnect", id, c, fn, ctx);
}
void engine_ack_events(struct engine *g, const char *id, uint64_t sequence, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	fake_request("ack", id, c, fn, ctx);
}
void engine_send_channel_message(struct engine *g, const struct channel_message_request *m, const struct caller *c,
				 engine_reply_fn fn, void *ctx)
{
	fake_request("message", m->text, c, fn, ctx);
}
void engine_resolve_routing(struct engine *g, const struct routing_ask *r, const struct caller *c, engine_reply_fn fn,
			    void *ctx)
{
	fake_request("route", r->turn_id, c, fn, ctx);
}
void engine_record_cost(struct engine *g, const struct cost_report *r, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	fake_request("cost", r->model, c, fn, ctx);
}
void engine_record_limit(struct engine *g, const struct limit_report *r, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	fake_request("limit", r->provider, c, fn, ctx);
}
void engine_add_model(struct engine *g, const struct model_registration *r, const struct caller *c, engine_reply_fn fn,
		      void *ctx)
{
	fake_request("add_model", r->name, c, fn, ctx);
}
void engine_remove_model(struct engine *g, const char *name, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("remove_model", name, c, fn, ctx);
}
int engine_list_models(struct engine *g, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
		       struct err *e)
{
	buf_str(out, "{\"models\":[]}");
	return 0;
}
int engine_get_model(struct engine *g, uint32_t uid, const char *name, struct buf *out, struct err *e)
{
	buf_str(out, "{}");
	return 0;
}
void engine_add_mcp_server(struct engine *g, const struct mcp_registration *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	fake_request("add_mcp_server", r->name, c, fn, ctx);
}
void engine_remove_mcp_server(struct engine *g, const char *name, const char *session_id, const struct caller *c,
			      engine_reply_fn fn, void *ctx)
{
	fake_request("remove_mcp_server", name, c, fn, ctx);
}
int engine_list_mcp_servers(struct engine *g, uint32_t uid, unsigned limit, const char *cursor, struct buf *out,
			    struct err *e)
{
	buf_str(out, "{\"servers\":[]}");
	return 0;
}
int engine_get_mcp_server(struct engine *g, uint32_t uid, const char *name, struct buf *out, struct err *e)
{
	buf_str(out, "{}");
	return 0;
}
#define SUBAGENT_METHOD(name)                                                                                  \
	void engine_##name(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx)                                                                          \
	{                                                                                                      \
		fake_request(#name, json_string_value(json_object_get(params, "subagentId")), c, fn, ctx);     \
	}
SUBAGENT_METHODS(SUBAGENT_METHOD)
#undef SUBAGENT_METHOD

void engine_link_peer_task(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			   void *ctx)
{
	fake_request("link_peer", NULL, c, fn, ctx);
}
void engine_update_peer_task(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn,
			     void *ctx)
{
	fake_request("update_peer", NULL, c, fn, ctx);
}

void engine_compact_context(struct engine *g, const struct compaction_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	fake_request("compact", NULL, c, fn, ctx);
}
void engine_rollback_thread(struct engine *g, const struct rollback_request *r, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	fake_request("rollback", NULL, c, fn, ctx);
}

void engine_evaluate_permission(struct engine *g, const struct start_request *r, const struct caller *c,
				engine_reply_fn fn, void *ctx)
{
	fake_request("evaluate", r->command_line, c, fn, ctx);
}
FAKE(engine_show_policy, const char *session_id AND const char *cwd, session_id)
FAKE(engine_set_permission_mode, const char *session_id AND const char *mode, mode)
FAKE(engine_record_evidence, const struct evidence_export *x, NULL)
FAKE(engine_start_benchmark_trial, const json_t *params, NULL)
FAKE(engine_record_benchmark_reward, const json_t *params, NULL)
FAKE(engine_compare_benchmark_runs, const json_t *params, NULL)
void engine_reload_policy(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("reload", NULL, c, fn, ctx);
}
int engine_await_folders(struct engine *g, const struct json_t *params, const struct caller *c, uint64_t since_ns,
			 void (*go)(struct engine *engine, void *ctx), void *ctx, struct err *e)
{
	return 0;
}

int engine_show_sandbox(struct engine *g, const struct sandbox_request *r, const struct caller *c, struct buf *out,
			struct err *e)
{
	buf_str(out, "{}");
	return 0;
}
void engine_create_sandbox(struct engine *g, const struct sandbox_creation *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	fake_request("create_sandbox", r->name, c, fn, ctx);
}
void engine_close_sandbox(struct engine *g, const char *given, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("close_sandbox", given, c, fn, ctx);
}
void engine_create_published(struct engine *g, const struct sandbox_creation *r, const struct port_publication *ports,
			     size_t n, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("create_sandbox", r->name, c, fn, ctx);
}
int engine_sandbox_process(struct engine *g, const char *given, const struct caller *c, char ret[ID_TEXT_MAX],
			   struct err *e)
{
	snprintf(ret, ID_TEXT_MAX, "%s", given);
	return 0;
}
void engine_publish_port(struct engine *g, const char *process_id, const struct port_publication *given,
			 const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("publish_port", process_id, c, fn, ctx);
}
void engine_unpublish_port(struct engine *g, const char *process_id, uint16_t port, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	fake_request("unpublish_port", process_id, c, fn, ctx);
}
void engine_list_ports(struct engine *g, const char *process_id, uint32_t uid, struct buf *out)
{
	buf_str(out, "{\"ports\":[]}");
}
void engine_checkpoint_sandbox(struct engine *g, const char *given, const char *name, const struct caller *c,
			       engine_reply_fn fn, void *ctx)
{
	fake_request("checkpoint_sandbox", given, c, fn, ctx);
}
void engine_restore_sandbox(struct engine *g, const char *given, const char *checkpoint, const struct caller *c,
			    engine_reply_fn fn, void *ctx)
{
	fake_request("restore_sandbox", given, c, fn, ctx);
}
void engine_fork_sandbox(struct engine *g, const char *given, const char *checkpoint, const char *name,
			 const struct caller *c, engine_reply_fn fn, void *ctx)
{
	fake_request("fork_sandbox", given, c, fn, ctx);
}
void engine_sandbox_id(struct engine *g, const char *given, const struct caller *c, char ret[ID_SIZE])
{
	id_copy(ret, given);
}
bool tool_evaluated_first(struct engine *g, const char *tool, struct tool_scope in) { return false; }

/* There are no copy-on-write runs. */
void cow_changes_request(struct cow_changes *c, const struct change_request *r, const struct caller *caller,
			 engine_reply_fn fn, void *ctx)
{
	abort();
}
void cow_changes_expire(struct cow_changes *c, uint64_t floor) { abort(); }

void engine_window_loaded(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			  const char *cursor, uint64_t from, uint64_t to, bool truncated)
{
}

#endif
