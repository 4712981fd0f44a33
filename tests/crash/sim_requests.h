#ifndef BAILIFF_TESTS_SIM_REQUESTS_H
#define BAILIFF_TESTS_SIM_REQUESTS_H

/* What simulated clients request: random methods with random ids, most of which exist. */

#include "tests/crash/sim_client.h"

#include "runtime/engine/call/mcp_server.h"
#include "runtime/engine/channel/channel.h"
#include "runtime/engine/loop/loop.h"
#include "runtime/engine/model/model.h"
#include "runtime/engine/model/model_registry.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/work/work.h"

static void do_session(struct sim *s)
{
	const struct session_request r = { .title = "simulated" };
	const struct caller c = caller_of(s);

	engine_create_session(s->w.engine, &r, &c, on_reply, s);
}

static void do_process(struct sim *s)
{
	const struct caller c = caller_of(s);
	struct start_request r = { .command_line = "true",
				   .end_with_client = sim_chance(&s->w, 20),
				   .stdin_pipe = sim_chance(&s->w, 30) };

	if (sim_chance(&s->w, 50)) {
		do_new_retry(s, true);
		return;
	}
	engine_default_limits(s->w.engine, &r.limits);
	if (sim_chance(&s->w, 20))
		r.limits.wall_ms = 1000;
	if (sim_chance(&s->w, 30))
		r.session_id = PICK(sessions);
	engine_start_process(s->w.engine, &r, &c, on_reply, s);
}

/* Session sandboxes: commands in them are among the processes that are repeated, and among the tools of turns. */
static void do_sandbox(struct sim *s)
{
	static const uint64_t idle[] = { 0, 2000, 60000 };
	const struct port_publication port = { .address = "127.0.0.1", .port = (uint16_t)(3000 + sim_pick(&s->w, 3)) };
	const struct caller c = caller_of(s);
	const char *id = PICK(sandboxes), *name = sim_chance(&s->w, 30) ? "box" : NULL;
	struct sandbox_creation r = { .name = name,
				      .session_id = sim_chance(&s->w, 50) ? PICK(sessions) : NULL,
				      .sandbox.change.cow = sim_chance(&s->w, 70),
				      .idle_ms = idle[sim_pick(&s->w, countof(idle))],
				      .end_with_client = sim_chance(&s->w, 20) };
	struct start_request start = { .command_line = "true", .session_id = PICK(sessions), .sandbox_id = id };

	switch (sim_pick(&s->w, 12)) {
	case 0:
	case 1:
	case 2: engine_create_sandbox(s->w.engine, &r, &c, on_reply, s); break;
	case 3: engine_create_published(s->w.engine, &r, &port, 1, &c, on_reply, s); break;
	case 4: engine_close_sandbox(s->w.engine, id, &c, on_reply, s); break;
	case 5: engine_checkpoint_sandbox(s->w.engine, id, name, &c, on_reply, s); break;
	case 6: engine_restore_sandbox(s->w.engine, id, NULL, &c, on_reply, s); break;
	case 7: engine_fork_sandbox(s->w.engine, id, NULL, name, &c, on_reply, s); break;
	case 8: engine_publish_port(s->w.engine, PICK(processes), &port, &c, on_reply, s); break;
	case 9: engine_unpublish_port(s->w.engine, PICK(processes), port.port, &c, on_reply, s); break;
	default:
		if (sim_chance(&s->w, 50))
			start.sandbox_id = SANDBOX_OF_SESSION;
		start.keep_tree = sim_chance(&s->w, 20);
		start.end_with_client = sim_chance(&s->w, 20);
		engine_default_limits(s->w.engine, &start.limits);
		engine_start_process(s->w.engine, &start, &c, on_reply, s);
	}
}

static void do_terminate(struct sim *s)
{
	const struct caller c = caller_of(s);

	if (sim_chance(&s->w, 70))
		do_new_retry(s, false);
	else
		engine_terminate_process(s->w.engine, PICK(processes), "enough", 0, sim_chance(&s->w, 50) ? 0 : 1000,
					 &c, on_reply, s);
}

static void do_submit(struct sim *s)
{
	static const char *const inputs[] = {
		"[{\"type\":\"text\",\"text\":\"hello\"}]",
		"[{\"type\":\"command\",\"commandLine\":\"true\"}]",
		("[{\"type\":\"command\",\"command\":[\"true\"]},{\"type\":\"tool_call\",\"toolName\":\"shell\","
		 "\"arguments\":{\"command\":\"ls\"}}]"),
		"[{\"type\":\"text\",\"text\":\"both\"},{\"type\":\"command\",\"commandLine\":\"true\"}]",
		"[{\"type\":\"tool_call\",\"toolName\":\"nonsense\",\"arguments\":{}}]",
	};
	json_auto_t *input = json_loads(inputs[sim_pick(&s->w, countof(inputs))], 0, NULL);
	json_auto_t *options = object("{s:s}", "whenBusy", sim_chance(&s->w, 80) ? "queue" : "reject");
	struct turn_request r = { .input = input, .options = options };
	const struct caller c = caller_of(s);

	if (sim_chance(&s->w, 70))
		r.thread_id = PICK(threads);
	engine_submit_turn(s->w.engine, &r, &c, on_reply, s);
}

static void do_turn(struct sim *s)
{
	const struct caller c = caller_of(s);
	const char *turn = PICK(turns);
	const struct turn_verdict v = { .turn_id = turn, .category = "client", .message = "no" };
	const struct turn_interrupt i = {
		.session_id = PICK(sessions), .turn_id = turn, .reason = "enough", .clear_queue = sim_chance(&s->w, 20)
	};

	switch (sim_pick(&s->w, 6)) {
	case 0: engine_complete_turn(s->w.engine, &v, &c, on_reply, s); break;
	case 1: engine_fail_turn(s->w.engine, &v, &c, on_reply, s); break;
	case 2: engine_interrupt_turn(s->w.engine, &i, &c, on_reply, s); break;
	case 3: engine_remove_queued_turn(s->w.engine, turn, "not needed", &c, on_reply, s); break;
	case 4: engine_promote_queued_turn(s->w.engine, turn, &c, on_reply, s); break;
	default: engine_resume_thread(s->w.engine, NULL, PICK(threads), &c, on_reply, s);
	}
}

static void do_tool(struct sim *s)
{
	json_auto_t *arguments = object("{s:s}", "command", "true");
	const struct tool_request r = { .turn_id = PICK(turns),
					.tool = "shell",
					.arguments = arguments,
					.timeout_ms = sim_chance(&s->w, 50) ? 0 : LIMIT_NONE };
	const struct caller c = caller_of(s);

	engine_invoke_tool(s->w.engine, &r, &c, on_reply, s);
}

static void do_action(struct sim *s)
{
	const struct caller c = caller_of(s);
	const bool of_task = sim_chance(&s->w, 30);
	const struct action_request r = { .turn_id = of_task ? NULL : PICK(turns),
					  .task_id = of_task ? PICK(tasks) : NULL,
					  .action_type = "approval",
					  .prompt = "may it?",
					  .timeout_ms = sim_chance(&s->w, 50) ? 500 + sim_pick(&s->w, 5000) : 0 };
	const struct action_answer a = { .action_id = PICK(check.asked),
					 .decision = sim_chance(&s->w, 50) ? "allow" : "deny",
					 .source = "user" };

	if (sim_chance(&s->w, 50))
		engine_request_action(s->w.engine, &r, &c, on_reply, s);
	else
		engine_respond_action(s->w.engine, &a, &c, on_reply, s);
}

static void do_make_task(struct sim *s)
{
	json_t *p = object("{s:s}", "objective", "simulate");

	if (sim_chance(&s->w, 60))
		json_object_set_new(p, "commandLine", json_string("true"));
	if (sim_chance(&s->w, 30))
		json_object_set_new(p, "parentTaskId", json_string(PICK(tasks)));
	if (sim_chance(&s->w, 40))
		json_object_set_new(p, "retryPolicy", object("{s:i,s:i}", "maxAttempts", 3, "backoffMs", 100));
	if (sim_chance(&s->w, 40))
		json_object_set_new(p, "autoComplete", json_true());
	ask(s, engine_create_task, p);
}

/* The time until which the node lets a task work: two thirds of the lease that it has claimed now. */
static json_t *claim(struct sim *s, struct sim_lease *l)
{
	l->claim_ns = s->w.boot_ns + l->lease_ms * 1000000;
	return json_integer((json_int_t)(s->w.boot_ns / 1000000 + l->lease_ms * 2 / 3));
}

/* A node of a fleet: new tasks and renewals. */
static void do_lease(struct sim *s)
{
	struct sim_lease *l = &s->w.leases[s->w.leased % SIM_LEASES];
	mem_auto char *command = NULL;

	if (s->w.leased && sim_chance(&s->w, 60)) {
		l = &s->w.leases[sim_pick(&s->w, s->w.leased < SIM_LEASES ? s->w.leased : SIM_LEASES)];
		if (s->w.boot_ns < l->claim_ns)
			ASK(s, engine_renew_lease, "{s:s,s:o}", "taskId", l->task_id, "leaseUntil", claim(s, l));
		return;
	}
	*l = (struct sim_lease){ .effect = sim_effect_new(&s->w.models), .lease_ms = 600 + sim_pick(&s->w, 8000) };
	snprintf(l->task_id, sizeof l->task_id, "leased-%u", s->w.leased++);
	command = mem_printf("true " SIM_EFFECT_NAME "%u.", l->effect - 1);
	ASK(s, engine_create_task, "{s:s,s:s,s:s,s:b,s:o,s:{s:s,s:i,s:I}}", "taskId", l->task_id, "objective", "o",
	    "commandLine", command, "autoComplete", 1, "leaseUntil", claim(s, l), "fleet", "taskId", l->task_id,
	    "token", 1, "leaseMs", (json_int_t)l->lease_ms);
	if (sim_chance(&s->w, 80))
		ASK(s, engine_start_task, "{s:s}", "taskId", l->task_id);
}

static void do_task(struct sim *s)
{
	static const char *const kinds[] = { "blocks", "blocked_by", "parent", "source_task" };
	const char *id = PICK(tasks);

	switch (sim_pick(&s->w, 12)) {
	case 0:
	case 1:
	case 2: ASK(s, engine_start_task, "{s:s}", "taskId", id); break;
	case 3:
		ASK(s, engine_append_task_progress, "{s:s,s:s,s:i}", "taskId", id, "phase", "working", "percent", 50);
		break;
	case 4: ASK(s, engine_pause_task, "{s:s,s:s}", "taskId", id, "reason", "wait"); break;
	case 5: ASK(s, engine_resume_task, "{s:s}", "taskId", id); break;
	case 6: ASK(s, engine_cancel_task, "{s:s,s:s,s:b}", "taskId", id, "reason", "enough", "propagate", 1); break;
	case 7: ASK(s, engine_retry_task, "{s:s,s:s}", "taskId", id, "reason", "again"); break;
	case 8: ASK(s, engine_complete_task, "{s:s}", "taskId", id); break;
	case 9:
		ASK(s, engine_fail_task, "{s:s,s:{s:s,s:s}}", "taskId", id, "error", "category", "x", "message", "y");
		break;
	case 10:
		ASK(s, engine_link_tasks, "{s:s,s:s,s:s}", "taskId", id, "kind", kinds[sim_pick(&s->w, countof(kinds))],
		    "targetId", PICK(tasks));
		break;
	default: ASK(s, engine_archive_task, "{s:s}", "taskId", id);
	}
}

static void do_subagent(struct sim *s)
{
	const char *id = PICK(subagents);

	switch (sim_pick(&s->w, 6)) {
	case 0:
	case 1: {
		json_t *p = object("{s:s,s:s}", "threadId", PICK(threads), "role", "helper");
		if (sim_chance(&s->w, 60))
			json_object_set_new(p, "commandLine", json_string("cat"));
		if (sim_chance(&s->w, 30))
			json_object_set_new(p, "taskId", json_string(PICK(tasks)));
		if (sim_chance(&s->w, 50))
			json_object_set_new(p, "input", json_string("go"));
		ask(s, engine_spawn_subagent, p);
		break;
	}
	case 2: ASK(s, engine_send_subagent_input, "{s:s,s:s}", "subagentId", id, "input", "more"); break;
	case 3: ASK(s, engine_close_subagent, "{s:s}", "subagentId", id); break;
	case 4: ASK(s, engine_resume_subagent, "{s:s}", "subagentId", id); break;
	default:
		ASK(s, engine_report_subagent, "{s:s,s:s}", "subagentId", id, "status",
		    sim_chance(&s->w, 50) ? "completed" : "idle");
	}
}

static void do_channel(struct sim *s)
{
	const struct caller c = caller_of(s);
	const struct channel_request r = { .transport = "json_rpc",
					   .heartbeat_ms = sim_chance(&s->w, 50) ? 1000 : 0,
					   .session_id = sim_chance(&s->w, 50) ? PICK(sessions) : NULL,
					   .capabilities_json = "[\"permissions\"]" };
	unsigned n = s->channels.count < IDS ? s->channels.count : IDS, at = sim_pick(&s->w, n);
	const char *id = n ? s->channels.id[at] : "channel_none";

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_connect_channel(s->w.engine, &r, &c, on_reply, s); break;
	case 1: engine_reconnect_channel(s->w.engine, id, 0, n ? s->token[at] : "", &c, on_reply, s); break;
	case 2: engine_ack_events(s->w.engine, id, sim_pick(&s->w, 100), &c, on_reply, s); break;
	default: engine_disconnect_channel(s->w.engine, id, "done", &c, on_reply, s);
	}
}

static void do_history(struct sim *s)
{
	const struct caller c = caller_of(s);
	struct compaction_request compaction = { .thread_id = PICK(threads), .trigger = "manual" };
	struct rollback_request rollback = { .thread_id = compaction.thread_id };

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_compact_context(s->w.engine, &compaction, &c, on_reply, s); break;
	case 1:
		compaction.summary = "so far";
		engine_compact_context(s->w.engine, &compaction, &c, on_reply, s);
		break;
	default: rollback.to_turn_id = PICK(turns); engine_rollback_thread(s->w.engine, &rollback, &c, on_reply, s);
	}
}

static void do_money(struct sim *s)
{
	const struct caller c = caller_of(s);
	const struct routing_ask r = { .turn_id = PICK(turns),
				       .want = { .latency = LATENCY_COUNT, .budget_class = BUDGET_HIGH },
				       .profile_json = "{}",
				       .profile_len = 2 };
	const struct cost_report cost = {
		.provider = "p", .model = "m", .usd = 0.01, .turn_id = sim_chance(&s->w, 50) ? PICK(turns) : NULL
	};

	const struct model_registration model = { .name = sim_chance(&s->w, 50) ? "a" : "b",
						  .base_url = "http://127.0.0.1/v1",
						  .model = "m",
						  .replace = true };

	switch (sim_pick(&s->w, 4)) {
	case 0: engine_resolve_routing(s->w.engine, &r, &c, on_reply, s); break;
	case 1: engine_add_model(s->w.engine, &model, &c, on_reply, s); break;
	case 2: engine_remove_model(s->w.engine, model.name, &c, on_reply, s); break;
	default: engine_record_cost(s->w.engine, &cost, &c, on_reply, s);
	}
}

/* Tools that clients have, and the results of their calls. */
static void do_client_tool(struct sim *s)
{
	json_auto_t *tools = object("[{s:s,s:s,s:{s:s}}]", "name", "mine", "description", "a tool of a client",
				    "inputSchema", "type", "object"),
		    *nothing = json_object();
	const struct tool_request call = { .turn_id = PICK(turns), .tool = "mine", .arguments = nothing };
	const struct tool_report done = {
		.call_id = PICK(calls), .turn_id = call.turn_id, .tool = "mine", .status = "completed"
	};
	const struct caller c = caller_of(s);

	switch (sim_pick(&s->w, 3)) {
	case 0:
		engine_register_tools(s->w.engine, tools, sim_chance(&s->w, 50) ? PICK(sessions) : NULL, &c, on_reply,
				      s);
		break;
	case 1: engine_invoke_tool(s->w.engine, &call, &c, on_reply, s); break;
	default: engine_report_tool_call(s->w.engine, &done, &c, on_reply, s);
	}
}

static void add_mcp_server(struct sim *s, const char *name, const char *session_id)
{
	json_auto_t *command = object("[s,s]", "server", "--stdio"), *env = object("{s:s}", "A", "b");
	const struct mcp_registration r = { .name = name,
					    .command = command,
					    .env = sim_chance(&s->w, 30) ? env : NULL,
					    .session_id = session_id,
					    .stateful = !session_id && sim_chance(&s->w, 30),
					    .replace = sim_chance(&s->w, 50) };
	const struct caller c = caller_of(s);

	engine_add_mcp_server(s->w.engine, &r, &c, on_reply, s);
}

/* MCP servers of all sessions and of one, and calls of their tools. */
static void do_mcp(struct sim *s)
{
	const char *name = sim_chance(&s->w, 75) ? "one" : "two",
		   *session_id = sim_chance(&s->w, 40) ? PICK(sessions) : NULL;
	const struct mcp_registration test = { .name = name, .test = true };
	const struct caller c = caller_of(s);
	buf_auto struct buf list = BUF_INIT;
	struct err e = ERR_INIT;

	if (!s->check.seen[EVENT_MCP_SERVER_ADDED]) {
		add_mcp_server(s, "one", NULL);
		return;
	}
	switch (sim_pick(&s->w, 12)) {
	case 0:
	case 1: add_mcp_server(s, name, session_id); return;
	case 2: engine_remove_mcp_server(s->w.engine, name, session_id, &c, on_reply, s); return;
	case 3: engine_add_mcp_server(s->w.engine, &test, &c, on_reply, s); return;
	case 4:
		on_reply(s, engine_list_mcp_servers(s->w.engine, c.uid, 10, NULL, &list, &e) < 0 ? &e : NULL,
			 buf_cstr(&list), list.len);
		return;
	default: break;
	}
	mem_auto char *text = mem_printf("true " SIM_EFFECT_NAME "%u.", sim_effect_new(&s->w.models) - 1);
	json_auto_t *arguments = object("{s:s}", "command", text);
	const struct tool_request call = { .turn_id = PICK(turns), .tool = SIM_MCP_TOOL, .arguments = arguments };
	json_auto_t *input = object("[{s:s,s:s,s:O}]", "type", "tool_call", "toolName", SIM_MCP_TOOL, "arguments",
				    arguments),
		    *options = object("{s:s}", "whenBusy", "queue");
	const struct turn_request turn = { .input = input,
					   .options = options,
					   .thread_id = sim_chance(&s->w, 70) ? PICK(threads) : NULL };
	if (sim_chance(&s->w, 50))
		engine_submit_turn(s->w.engine, &turn, &c, on_reply, s);
	else
		engine_invoke_tool(s->w.engine, &call, &c, on_reply, s);
}

/* Tasks that a peer behind a channel works on. */
static void do_peer(struct sim *s)
{
	static const char *const statuses[] = { "submitted", "working",  "input-required", "TASK_STATE_AUTH_REQUIRED",
						"completed", "canceled", "failed",         "no such status" };
	const char *status = statuses[sim_pick(&s->w, countof(statuses))], *channel = PICK(channels);
	mem_auto char *remote = mem_printf("remote-%u", sim_pick(&s->w, 2));
	const struct caller c = caller_of(s);
	const struct channel_request connect = { .transport = "json_rpc", .capabilities_json = "[\"permissions\"]" };
	json_t *p = object("{s:s,s:s,s:s}", "channelId", channel, "remoteTaskId", remote, "remoteStatus", status);

	if (!s->channels.count) {
		engine_connect_channel(s->w.engine, &connect, &c, on_reply, s);
		json_decref(p);
		return;
	}
	if (sim_chance(&s->w, 40)) {
		json_object_set_new(p, "nativeProtocol", json_string("a2a"));
		if (sim_chance(&s->w, 40))
			json_object_set_new(p, "taskId", json_string(PICK(tasks)));
		ask(s, engine_link_peer_task, p);
		return;
	}
	if (sim_chance(&s->w, 30))
		json_object_set_new(p, "remoteArtifactRefs", object("[s,{s:s}]", "ref", "uri", "other"));
	if (sim_chance(&s->w, 30))
		json_object_set_new(p, "message", json_string("so it is"));
	ask(s, engine_update_peer_task, p);
}

static void do_mode(struct sim *s)
{
	const struct caller c = caller_of(s);

	engine_set_permission_mode(s->w.engine, PICK(sessions),
				   permission_mode_name((enum permission_mode)sim_pick(&s->w, MODE_COUNT)), &c,
				   on_reply, s);
}

static void do_input(struct sim *s)
{
	const struct caller c = caller_of(s);
	const char *id = PICK(processes);

	switch (sim_pick(&s->w, 5)) {
	case 0: engine_write_stdin(s->w.engine, id, "x", 1, &c, on_reply, s); break;
	case 1: engine_close_stdin(s->w.engine, id, &c, on_reply, s); break;
	case 2: engine_signal_process(s->w.engine, id, SIGUSR1, &c, on_reply, s); break;
	case 3: engine_wait_process(s->w.engine, id, sim_chance(&s->w, 50) ? 500 : LIMIT_NONE, &c, on_reply, s); break;
	default: engine_claim_turn(s->w.engine, PICK(turns), &c, on_reply, s);
	}
}

static void do_job(struct sim *s)
{
	switch (sim_pick(&s->w, 3)) {
	case 0:
		ASK(s, engine_create_job, "{s:[{s:s},{s:s},{s:s}],s:i,s:{s:i}}", "items", "commandLine", "true",
		    "commandLine", "true", "input", "x", "maxParallel", 2, "retryPolicy", "maxAttempts", 2);
		break;
	case 1: ASK(s, engine_cancel_job, "{s:s,s:s}", "jobId", PICK(jobs), "reason", "enough"); break;
	default: ASK(s, engine_retry_job_item, "{s:s,s:s}", "jobId", PICK(jobs), "itemId", "item_none");
	}
}

static void add_model(struct sim *s)
{
	const struct caller c = caller_of(s);
	const enum dialect d = (enum dialect)sim_pick(&s->w, DIALECT_COUNT);
	const struct model_registration r = { .name = sim_chance(&s->w, 50) ? "a" : "b",
					      .base_url = "http://127.0.0.1/v1",
					      .dialect = dialect_name(d),
					      .model = "m",
					      .context_tokens = sim_chance(&s->w, 30) ? 4000 : 200000,
					      .replace = true };

	s->asked++;
	engine_add_model(s->w.engine, &r, &c, on_reply, s);
}

/* Turns that the loop drives with the simulated model. */
static void do_loop(struct sim *s)
{
	static const char *const where[] = { SANDBOX_OWN, SANDBOX_OWN, SANDBOX_OF_SESSION, SANDBOX_OF_THREAD };
	json_auto_t *input = object("[{s:s,s:s}]", "type", "text", "text", "work"),
		    *options = object("{s:s,s:s}", "whenBusy", "queue", "sandboxId",
				      where[sim_pick(&s->w, countof(where))]);
	struct turn_request r = { .input = input, .options = options, .loop = true };
	const struct turn_steer steer = { .turn_id = PICK(turns), .input = "and more" };
	const struct caller c = caller_of(s);

	if (sim_chance(&s->w, 20))
		add_model(s);
	if (sim_chance(&s->w, 10)) {
		s->asked++;
		add_mcp_server(s, "one", NULL);
	}
	if (sim_chance(&s->w, 60))
		r.thread_id = PICK(threads);
	if (sim_chance(&s->w, 15))
		engine_steer_turn(s->w.engine, &steer, &c, on_reply, s);
	else
		engine_submit_turn(s->w.engine, &r, &c, on_reply, s);
}

static const struct {
	unsigned weight;
	const char *name;
	void (*fn)(struct sim *s);
} requests[] = {
	{ 3, "a session", do_session },
	{ 6, "a process", do_process },
	{ 20, "something about a session sandbox", do_sandbox },
	{ 4, "end a process", do_terminate },
	{ 16, "a request is repeated", do_retry },
	{ 12, "a turn", do_submit },
	{ 12, "something about a turn", do_turn },
	{ 6, "a call of a tool", do_tool },
	{ 8, "a question or its answer", do_action },
	{ 6, "a task", do_make_task },
	{ 16, "something about a task", do_task },
	{ 5, "a lease of a task", do_lease },
	{ 8, "something about a subagent", do_subagent },
	{ 4, "something about a channel", do_channel },
	{ 4, "something about a thread's history", do_history },
	{ 3, "something about models and costs", do_money },
	{ 3, "something about a job", do_job },
	{ 22, "a turn of the loop", do_loop },
	{ 4, "something about a client's tool", do_client_tool },
	{ 12, "something about an MCP server", do_mcp },
	{ 10, "something about a peer's task", do_peer },
	{ 2, "a mode", do_mode },
	{ 4, "something about a process or a claim", do_input },
};

_Static_assert(countof(requests) <= 64, "a kind is a bit of `absent`");

/* Kinds that only together reach far: a call of a server's tool needs the server and a turn, a report its channel and
 * task. */
static const struct theme {
	void (*first)(struct sim *s), (*second)(struct sim *s);
} themes[] = { { do_mcp, do_submit }, { do_peer, do_make_task } };

enum { THEME_FIRST = 20, THEME_SECOND = 4 }; /* times their weights */

/*
 * Histories differ: each leaves out some kinds of requests, so that the others meet more often, and has its own share
 * of requests. With few, most processes and turns end; with many, queues grow. Half of them have a theme.
 */
static void requests_init(struct sim *s)
{
	static const unsigned shares[] = { 80, 120, 160, 160, 200, 330 };

	s->share = shares[sim_pick(&s->w, countof(shares))];
	for (size_t i = 0; i < countof(requests); i++)
		s->absent |= (uint64_t)sim_chance(&s->w, 20) << i;
	s->absent &= ~1ull; /* sessions */
	const size_t theme = sim_pick(&s->w, 2 * countof(themes));
	if (theme < countof(themes))
		s->theme = &themes[theme];
	s->w.file_tools |= theme == 0; /* bailiff-tool starts MCP servers */
}

static unsigned weight_of(const struct sim *s, size_t kind)
{
	const unsigned weight = requests[kind].weight;

	if (s->theme && requests[kind].fn == s->theme->first)
		return weight * THEME_FIRST;
	if (s->theme && requests[kind].fn == s->theme->second)
		return weight * THEME_SECOND;
	return s->absent >> kind & 1 ? 0 : weight;
}

/* Returns what was requested. */
static const char *request(struct sim *s)
{
	unsigned total = 0, at;

	for (size_t i = 0; i < countof(requests); i++)
		total += weight_of(s, i);
	at = sim_pick(&s->w, total);
	for (size_t i = 0; i < countof(requests); i++) {
		if (at < weight_of(s, i)) {
			s->asked++;
			requests[i].fn(s);
			return requests[i].name;
		}
		at -= weight_of(s, i);
	}
	return "nothing";
}

#endif
