/* Reading processes: lists, with what they use now, and searches of the history. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/engine/sandbox/sandbox.h"
#include "runtime/event/id.h"
#include "runtime/view/view.h"
#include "runtime/view/view_search.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/methods.h"
#include "supervisor/host/tree_usage.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 1024u /* of a text to search for */

/* ---- what the daemon adds to a document ---- */

/* The name of the latest uid: most pages have only one. */
struct user_name {
	bool known;
	uint32_t uid;
	char name[64]; /* "" = it has no account */
};

static void find_name(struct user_name *u, uint32_t uid)
{
	struct passwd pw, *found = NULL;
	char text[4096];

	if (u->known && u->uid == uid)
		return;
	if (getpwuid_r(uid, &pw, text, sizeof text, &found) != 0)
		found = NULL;
	u->known = true;
	u->uid = uid;
	(void)snprintf(u->name, sizeof(u->name), "%s", found ? found->pw_name : "");
}

static void write_usage(const struct tree_usage *u, struct jval process, struct jw *w)
{
	char id[ID_SIZE];
	struct tree_usage_process p = {
		.process_id = id,
		.pid = jval_uint(jval_get(process, "pid"), 0),
		.start_time = jval_uint(jval_get(process, "startTime"), 0),
		.shares_cgroup = jval_get(process, "within").type != JT_NONE,
	};
	struct tree_usage_values v;

	(void)jval_str(jval_get(process, "processId"), id, sizeof(id));
	if (!p.pid || jval_get(process, "endedAt").type != JT_NONE || tree_usage_get(u, &p, &v) < 0)
		return;
	jw_kobj(w, "usage");
	jw_kuint(w, "timeUs", v.time_us);
	jw_kuint(w, "cpuUs", v.cpu_us);
	jw_kuint(w, "memoryBytes", v.memory_bytes);
	jw_kuint(w, "tasks", v.tasks);
	if (v.io_known) {
		jw_kuint(w, "readBytes", v.read_bytes);
		jw_kuint(w, "writeBytes", v.write_bytes);
	}
	jw_obj_end(w);
}

/* A page of a view, each process with `user` and, if `usage` is not NULL, its usage. */
static void write_page(const struct tree_usage *usage, struct jval page, struct buf *out)
{
	struct user_name user = { 0 };
	struct jw w = jw_on(out);

	jw_obj(&w);
	for (struct jiter it = jiter_on(page); jiter_next(&it);) {
		char key[ID_SIZE];

		(void)jval_str(it.key, key, sizeof(key));
		if (strcmp(key, "processes") != 0) {
			jw_kraw(&w, key, it.value.text, it.value.len);
			continue;
		}
		jw_karr(&w, key);
		for (struct jiter p = jiter_on(it.value); jiter_next(&p);) {
			jw_obj(&w);
			buf_append(out, p.value.text + 1, p.value.len - 2); /* its members */
			w.need_comma = true;
			const struct jval uid = jval_get(p.value, "uid");
			if (uid.type == JT_NUMBER)
				find_name(&user, (uint32_t)jval_uint(uid, UINT32_MAX));
			if (uid.type == JT_NUMBER && *user.name)
				jw_kstr(&w, "user", user.name);
			if (usage)
				write_usage(usage, p.value, &w);
			jw_obj_end(&w);
		}
		jw_arr_end(&w);
	}
	jw_obj_end(&w);
}

/* ---- methods ---- */

int method_list_processes(struct call *c, const struct list_processes_params *p, struct buf *out, struct err *e)
{
	char sandbox[ID_SIZE];
	buf_auto struct buf page = BUF_INIT;
	const struct view_process_query q = {
		.session_id = p->sessionId,
		.task_id = p->taskId,
		.sandbox_id = p->sandboxId ? sandbox : NULL,
		.holders = param_bool_or(p->holders, p->match != NULL),
		.status = p->status,
		.match = p->match,
		.live_only = p->liveOnly.value,
		.cow = p->changes != NULL,
		.held = p->changes && strcmp(p->changes, "held") == 0,
		.except = param_bool_or(p->helpers, true) ? NULL : engine_tool_program(call_engine(c)),
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};

	if (p->sandboxId)
		engine_sandbox_id(call_engine(c), p->sandboxId, &c->caller, sandbox);
	if (!p->usage.value)
		return view_processes(call_store(c), call_visible_uid(c), &q, out, e);
	if (view_processes(call_store(c), call_visible_uid(c), &q, &page, e) < 0)
		return -1;
	tree_usage_refresh(&c->control->usage);
	write_page(&c->control->usage, jval_of(page.data, page.len), out);
	return CALL_REPLY;
}

int method_get_process(struct call *c, const struct get_process_params *p, struct buf *out, struct err *e)
{
	return view_process(call_store(c), call_visible_uid(c), p->processId, out, e);
}

/* A name or a number. */
static int read_user(const char *user, uint32_t *ret, struct err *e)
{
	struct passwd pw, *found = NULL;
	char text[4096], *end;
	unsigned long long uid = strtoull(user, &end, 10);

	if (*user >= '0' && *user <= '9' && !*end && uid <= UINT32_MAX) {
		*ret = (uint32_t)uid;
		return 0;
	}
	if (getpwnam_r(user, &pw, text, sizeof text, &found) != 0 || !found)
		return err_field(e, "user", "no account '%.64s'", user);
	*ret = found->pw_uid;
	return 0;
}

static int read_exit(const json_t *given, struct view_search_query *q, struct err *e)
{
	const char *word = json_string_value(given);

	q->nonzero = word && strcmp(word, "nonzero") == 0;
	q->by_exit = json_is_integer(given);
	q->exit = json_integer_value(given);
	if (given && !q->nonzero && !q->by_exit)
		return err_field(e, "exit", "must be a number or \"nonzero\"");
	return 0;
}

int method_search_history(struct call *c, const struct search_history_params *p, struct buf *out, struct err *e)
{
	buf_auto struct buf page = BUF_INIT;
	struct view_search_query q = {
		.session_id = p->session,
		.command = p->grep,
		.output = p->output,
		.cwd = p->cwd,
		.host = p->host,
		.path = p->path,
		.except = param_bool_or(p->helpers, false) ? NULL : engine_tool_program(call_engine(c)),
		.since_ms = param_uint_or(p->since, 0),
		.until_ms = param_uint_or(p->until, UINT64_MAX),
		.denied = p->denied.value,
		.by_uid = p->user != NULL,
		.limit = param_page_limit(p->limit, 100),
		.before = p->before,
	};

	if (param_length("grep", p->grep, 1, TEXT_MAX, e) < 0 ||
	    param_length("output", p->output, 1, TEXT_MAX, e) < 0 ||
	    param_length("host", p->host, 1, TEXT_MAX, e) < 0 || param_length("path", p->path, 1, TEXT_MAX, e) < 0 ||
	    read_exit(p->exit, &q, e) < 0 || (p->user && read_user(p->user, &q.uid, e) < 0) ||
	    view_search(call_store(c), call_visible_uid(c), &q, &page, e) < 0)
		return -1;
	write_page(NULL, jval_of(page.data, page.len), out);
	return CALL_REPLY;
}
