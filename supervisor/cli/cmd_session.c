/* Sessions, their turns and their subagents: the subverbs that are more than one row of verbs.def. */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>

/* More than any policy that is written by hand; the request must fit into one line of the protocol. */
#define FILE_MAX (1u << 20)
#define TURNS_READ 200 /* of a thread at once */

/* ---- session rules ---- */

/* NULL after printing why, with line and column of a syntax error. */
static json_t *read_policy(const char *file)
{
	mem_auto char *text = mem_alloc(FILE_MAX + 1);
	fd_auto int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, FILE_MAX + 1);
	json_error_t fault;
	json_t *v;

	if (n < 0 || n > (ssize_t)FILE_MAX) {
		cli_error("%s: %s", file, n < 0 ? strerror(errno) : "larger than 1 MiB");
		return NULL;
	}
	/* Duplicate keys are rejected: the second would silently replace rules of the first. */
	v = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &fault);
	if (!v || !json_is_object(v)) {
		if (v)
			cli_error("%s: expected a JSON object", file);
		else
			cli_error("%s: line %d, column %d: %s", file, fault.line, fault.column, fault.text);
		json_decref(v);
		return NULL;
	}
	return v;
}

/* Writes the request's permissions from a policy file; members that a session cannot have are rejected. */
static int write_policy(const char *file, struct jw *w)
{
	json_auto_t *v = read_policy(file), *rules = NULL;
	json_t *item;
	const char *key;

	if (!v)
		return EXIT_FAILED;
	json_object_foreach (v, key, item)
		if (strcmp(key, "permissions") != 0 && strcmp(key, "prefixRules") != 0) {
			cli_error(
				"%s: %s: not allowed in the rules of a session (only permissions and prefixRules are)",
				file, key);
			return EXIT_FAILED;
		}
	item = json_object_get(v, "permissions");
	if (item && !json_is_object(item)) {
		cli_error("%s: permissions: expected an object", file);
		return EXIT_FAILED;
	}
	rules = item ? json_incref(item) : json_object();
	if (json_object_get(v, "prefixRules"))
		json_object_set(rules, "prefixRules", json_object_get(v, "prefixRules"));
	mem_auto char *text = json_dumps(rules, JSON_COMPACT);
	jw_kraw(w, "permissions", text, strlen(text));
	return 0;
}

/* --policy FILE, if it is given. 0, or the exit status. */
static int write_own_rules(struct cli *c, struct jw *w)
{
	const char *file = opts_get(&c->opts, OPT_session_POLICY);

	return file ? write_policy(file, w) : 0;
}

int session_create(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	if ((status = noun_options(c, "title", &q.w)) || (status = write_own_rules(c, &q.w)))
		return status;
	return noun_change(c, &q, "create_session", "sessionId");
}

int session_update(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];
	int status;

	if (opts_has(&c->opts, OPT_session_POLICY) && opts_has(&c->opts, OPT_session_NO_POLICY))
		return cli_usage(c, "--policy and --no-policy exclude each other");
	if (opts_has(&c->opts, OPT_session_ARCHIVE) && opts_has(&c->opts, OPT_session_UNARCHIVE))
		return cli_usage(c, "--archive and --unarchive exclude each other");
	if (!noun_first_given(c, "title archive unarchive policy no-policy"))
		return cli_usage(c, "nothing to change: give --title, --archive, --unarchive, --policy or --no-policy");
	if (id_lookup(c, ID_SESSION, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "sessionId", id);
	if (opts_has(&c->opts, OPT_session_ARCHIVE) || opts_has(&c->opts, OPT_session_UNARCHIVE))
		jw_kbool(&q.w, "archived", opts_has(&c->opts, OPT_session_ARCHIVE));
	if ((status = noun_options(c, "title", &q.w)) || (status = write_own_rules(c, &q.w)))
		return status;
	if (opts_has(&c->opts, OPT_session_NO_POLICY))
		jw_kraw(&q.w, "permissions", "{}", 2);
	return noun_change(c, &q, "update_session", "sessionId");
}

/* ---- turns ---- */

/* The parts of a turn in the order of the command line: texts and lines, then the command after "--". */
static void write_parts(const struct cli *c, struct jw *w)
{
	jw_karr(w, "input");
	for (size_t i = 0; i < c->opts.ngiven; i++) {
		const struct opt_given *g = &c->opts.given[i];
		bool text = g->option == OPT_turn_TEXT;

		if (!text && g->option != OPT_turn_LINE)
			continue;
		jw_obj(w);
		jw_kstr(w, "type", text ? "text" : "command");
		jw_kstr(w, text ? "text" : "commandLine", g->value);
		jw_obj_end(w);
	}
	if (c->opts.nargs > 1) {
		jw_obj(w);
		jw_kstr(w, "type", "command");
		jw_kstrv(w, "command", c->opts.args + 1, c->opts.nargs - 1);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

/* Appends the turn's record if the window has it; returns the cursor of the next window. */
static void find_turn(struct jval thread, const char *id, struct buf *ret, char ret_next[ID_LOOKUP_MAX])
{
	for (struct jiter it = jiter_on(jval_get(thread, "turns")); jiter_next(&it);)
		if (jval_is_str(jval_get(it.value, "turnId"), id))
			buf_append(ret, it.value.text, it.value.len);
	ret_next[0] = '\0';
	jval_str(jval_get(thread, "historyCursor"), ret_next, ID_LOOKUP_MAX);
}

/* A turn is part of its thread's record, which is read in windows. */
int turn_show(struct cli *c)
{
	char id[ID_LOOKUP_MAX], thread[ID_LOOKUP_MAX], next[ID_LOOKUP_MAX] = "";
	request_auto struct request q = REQUEST_INIT(q);
	buf_auto struct buf turn = BUF_INIT;

	if (id_lookup(c, ID_TURN, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_kstr(&q.w, "turnId", id);
	if (request_read(c, &q, "get_execution_environment") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "turn show");
	jval_str(jval_get(q.result, "threadId"), thread, sizeof(thread));
	do {
		request_auto struct request window = REQUEST_INIT(window);

		jw_kstr(&window.w, "threadId", thread);
		jw_kobj(&window.w, "window");
		jw_kuint(&window.w, "limit", TURNS_READ);
		jw_kopt(&window.w, "before", next[0] ? next : NULL);
		jw_obj_end(&window.w);
		if (request_read(c, &window, "get_thread_read") < 0)
			return cli_fail(c, EXIT_FAILED, &window.e, "turn show");
		find_turn(window.result, id, &turn, next);
	} while (!turn.len && next[0]);
	if (!turn.len) {
		cli_error("turn show: '%s' is not in its thread %s", id, thread);
		return EXIT_FAILED;
	}
	return format_record(jval_of(turn.data, turn.len), cli_as_json(c));
}

int turn_submit(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	if (c->opts.nargs < 2 && !opts_has(&c->opts, OPT_turn_TEXT) && !opts_has(&c->opts, OPT_turn_LINE))
		return cli_usage(c, "submit needs --text, --line or a command");
	if ((status = noun_options(c, "session=sessionId:session thread=threadId:thread", &q.w)))
		return status;
	write_parts(c, &q.w);
	jw_kobj(&q.w, "options");
	if ((status = file_option_cwd(c, OPT_turn_CWD, &q.w)))
		return status;
	jw_kopt(&q.w, "profile", opts_get(&c->opts, OPT_turn_PROFILE));
	if (opts_has(&c->opts, OPT_turn_REJECT))
		jw_kstr(&q.w, "whenBusy", "reject");
	if (opts_has(&c->opts, OPT_turn_KEEP_GOING))
		jw_kbool(&q.w, "stopOnFailure", false);
	jw_kstr(&q.w, "onDisconnect", "keep"); /* this connection ends when the id is printed */
	jw_obj_end(&q.w);
	return noun_change(c, &q, "submit_turn", "turnId");
}

/* ---- subagents ---- */

int subagent_spawn(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	jw_kstr(&q.w, "role", c->opts.args[1]);
	status = noun_options(
		c, "thread!=threadId:thread turn=turnId:turn task=taskId:task nickname input profile=isolation.profile",
		&q.w);
	if (status)
		return status;
	if (c->opts.nargs > 2) { /* without a command its client runs it, and the working directory means nothing */
		jw_kstrv(&q.w, "command", c->opts.args + 2, c->opts.nargs - 2);
		if ((status = file_option_cwd(c, OPT_subagent_CWD, &q.w)))
			return status;
	}
	return noun_change(c, &q, "spawn_subagent", "subagentId");
}
