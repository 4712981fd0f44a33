/*
 * Shortened ids are matched here and not by the daemon, except for processes, of which there may be very many. An exact
 * match always wins, because clients may choose ids that begin with each other. An ambiguous id is an error that lists
 * the candidates, never a guess: `kill` and `approve` use this, too.
 */

#include "supervisor/cli/id_lookup.h"

#include "runtime/base/mem.h"
#include "supervisor/cli/format.h"

#include <stdio.h>
#include <unistd.h>

#define RANDOM_PART 26 /* characters of a generated id after its prefix */
#define CANDIDATES 8   /* shown if an id is ambiguous */
#define END_LEAST 4
#define PAGE 500
#define LAST "@last"
#define GIVEN_MOST 64     /* characters of any id; the daemon rejects longer ones */
#define SESSIONS_MOST 200 /* in which threads and turns are searched */

const struct id_kind_row id_kinds[ID_KINDS] = {
	[ID_PROCESS] = { "process", "proc_", "list_processes", "processes", "processId", "", "bailiff ps -a" },
	[ID_SESSION] = { "session", "sess_", "list_sessions", "sessions", "sessionId", "", "bailiff session list",
			 "title" },
	[ID_THREAD] = { "thread", "thr_", "list_sessions", "sessions", "firstThreadId", "", "bailiff thread list" },
	[ID_TURN] = { "turn", "turn_", "list_sessions", "sessions", "systemTurnId", "", "bailiff turn list" },
	[ID_TASK] = { "task", "task_", "list_tasks", "tasks", "taskId", "", "bailiff task list -a", "title" },
	[ID_JOB] = { "job", "job_", "list_jobs", "jobs", "jobId", "", "bailiff job list -a" },
	[ID_SUBAGENT] = { "subagent", "sub_", "list_subagents", "subagents", "subagentId", "", "bailiff subagent list",
			  "nickname" },
	[ID_CHANNEL] = { "channel", "chan_", "list_channels", "channels", "channelId", "", "bailiff channel list" },
	[ID_SANDBOX] = { "sandbox", "sbx_", "list_sandboxes", "sandboxes", "sandboxId", "", "bailiff sandbox list",
			 "name" },
	[ID_ACTION] = { "action", "act_", "list_actions", "actions", "actionId", "", "bailiff pending" },
	[ID_PENDING] = { "open action", "act_", "list_actions", "actions", "actionId", "\"status\":\"pending\"",
			 "bailiff pending" },
};

int id_kind_of(const char *noun, size_t len)
{
	for (int i = 0; i < ID_KINDS; i++)
		if (strlen(id_kinds[i].noun) == len && strncmp(id_kinds[i].noun, noun, len) == 0)
			return i;
	return -1;
}

int list_pages(struct cli *c, const char *method, const char *list, const struct buf *filter,
	       bool (*fn)(void *ctx, struct jval element), void *ctx, struct err *e)
{
	char cursor[128] = "";

	do {
		request_auto struct request q = REQUEST_INIT(q);

		if (filter && filter->len) {
			buf_append(&q.params, filter->data, filter->len);
			q.w.need_comma = true;
		}
		if (strncmp(method, "list_", 5) == 0)
			jw_kuint(&q.w, "limit", PAGE);
		if (cursor[0])
			jw_kstr(&q.w, "cursor", cursor);
		if (request_read(c, &q, method) < 0) {
			*e = q.e;
			return -1;
		}
		for (struct jiter it = jiter_on(jval_get(q.result, list)); jiter_next(&it);)
			if (!fn(ctx, it.value))
				return 0;
		jval_str(jval_get(q.result, "nextCursor"), cursor, sizeof(cursor));
	} while (cursor[0]);
	return 0;
}

/* Whether the daemon accepts the text as the beginning or end of an id; otherwise no id can match. */
static bool may_be_id(const char *given)
{
	static const char characters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.:";
	size_t n = strlen(given);

	return n && n <= GIVEN_MOST && strspn(given, characters) == n;
}

struct id_search {
	const struct id_kind_row *kind;
	const char *given;
	struct buf found; /* the first match, or the exact one */
	struct buf lines; /* the matches for people, one per line */
	size_t n;
	bool whole; /* the first match has this id or name */
};

/* Root sees the sandboxes of all users, whose names are each user's own. */
static bool is_own_name(struct jval sandbox, const char *name)
{
	return jval_is_str(jval_get(sandbox, "name"), name) && jval_uint(jval_get(sandbox, "uid"), 0) == geteuid();
}

/* Counts the matches and keeps the first; an exact one replaces it and ends the search. */
static bool match_element(void *ctx, struct jval element)
{
	struct id_search *s = ctx;
	const char *given = s->given;
	size_t n = strlen(given), p = strlen(s->kind->prefix), len;
	char id[ID_LOOKUP_MAX], status[32];

	len = jval_str(jval_get(element, s->kind->member), id, sizeof(id));
	bool exact = strcmp(id, given) == 0 || strcmp(given, LAST) == 0 ||
		     (s->kind == &id_kinds[ID_SANDBOX] && is_own_name(element, given));
	bool named = s->kind->name && jval_is_str(jval_get(element, s->kind->name), given);
	if (!n)
		return false; /* would match everything */
	if (!exact && !named && strncmp(id, given, n) != 0 &&
	    !(strncmp(id, s->kind->prefix, p) == 0 && strncmp(id + p, given, n) == 0) &&
	    !(n >= END_LEAST && len >= n && len < sizeof(id) && strcmp(id + len - n, given) == 0))
		return true;
	if (exact || s->n == 0) {
		buf_reset(&s->found);
		buf_append(&s->found, element.text, element.len);
		s->whole = exact || named;
	}
	s->n = exact ? 1 : s->n + 1;
	jval_str(jval_get(element, "status"), status, sizeof(status));
	if (s->n <= CANDIDATES) {
		buf_auto struct buf command = BUF_INIT;

		format_command(element, &command);
		buf_printf(&s->lines, "%s%s  %-10s  %.60s", s->lines.len ? "\n  " : "", id, status, buf_cstr(&command));
	}
	/* An exact match wins over others that begin with it. */
	return !exact && (s->kind != &id_kinds[ID_PROCESS] || s->n <= CANDIDATES);
}

/* Threads and turns are listed with their session. */
struct session_search {
	struct cli *cli;
	struct id_search *search;
	enum id_kind kind;
	unsigned sessions;
};

static bool search_session(void *ctx, struct jval session)
{
	struct session_search *s = ctx;
	struct jval id = jval_get(session, "sessionId");
	request_auto struct request q = REQUEST_INIT(q);

	jw_kraw(&q.w, "sessionId", id.text, id.len);
	if (request_read(s->cli, &q, "get_session") < 0)
		return true; /* removed meanwhile */
	for (struct jiter it = jiter_on(jval_get(q.result, "threads")); jiter_next(&it);) {
		if (s->kind == ID_THREAD && !match_element(s->search, it.value))
			return false;
		for (struct jiter turn = jiter_on(jval_get(it.value, "turns"));
		     s->kind == ID_TURN && jiter_next(&turn);)
			if (!match_element(s->search, turn.value))
				return false;
	}
	return ++s->sessions < SESSIONS_MOST;
}

/* Searches the list of s->kind, which is that of `kind`. */
static int search_list(struct cli *c, enum id_kind kind, struct id_search *s, struct err *e)
{
	buf_auto struct buf filter = BUF_INIT;
	struct jw w = jw_on(&filter);

	buf_str(&filter, id_kinds[kind].filter);
	if (kind == ID_PROCESS && strcmp(s->given, LAST) == 0)
		jw_kbool(&w, "helpers", false);
	else if (kind == ID_PROCESS && !may_be_id(s->given))
		return 0;
	else if (kind == ID_PROCESS) /* there may be many: the daemon searches them, for prefixes and ends */
		jw_kstr(&w, "match", s->given);
	return list_pages(c, s->kind->method, s->kind->list, &filter, match_element, s, e);
}

static void search_done(struct id_search *s)
{
	buf_done(&s->found);
	buf_done(&s->lines);
}

struct closed_search {
	const char *name;
	struct buf *ret;
};

static bool take_closed(void *ctx, struct jval sandbox)
{
	struct closed_search *s = ctx;

	if (!is_own_name(sandbox, s->name))
		return true;
	buf_append(s->ret, sandbox.text, sandbox.len);
	return false;
}

bool id_lookup_closed_sandbox(struct cli *c, const char *name, char ret[ID_LOOKUP_MAX], char ret_reason[32])
{
	const struct id_kind_row *k = &id_kinds[ID_SANDBOX];
	buf_auto struct buf filter = BUF_INIT, element = BUF_INIT;
	struct closed_search s = { name, &element };
	struct jw w = jw_on(&filter);
	struct err ignored = ERR_INIT;

	jw_kbool(&w, "closed", true);
	(void)list_pages(c, k->method, k->list, &filter, take_closed, &s, &ignored);
	struct jval found = jval_of(element.data, element.len);
	if (!element.len || !jval_is_str(jval_get(found, "status"), "closed"))
		return false;
	jval_str(jval_get(found, "sandboxId"), ret, ID_LOOKUP_MAX);
	jval_str(jval_get(found, "reason"), ret_reason, 32);
	return true;
}

/* One that has ended, perhaps by itself, is found only by its id. */
static bool print_closed_sandbox(struct cli *c, const char *given)
{
	char id[ID_LOOKUP_MAX], reason[32];

	if (!id_lookup_closed_sandbox(c, given, id, reason))
		return false;
	const bool by_itself = reason[0] && strcmp(reason, "closed") != 0;
	cli_error("sandbox '%s' is closed%s%s%s", given, by_itself ? " (" : "", by_itself ? reason : "",
		  by_itself ? ")" : "");
	cli_hint("bailiff sandbox show %s shows it; bailiff sandbox create --name %s creates another", id, given);
	return true;
}

static void print_no_match(const char *nouns, const char *given, const char *hint)
{
	cli_error("no %s matches '%.*s%s'", nouns, GIVEN_MOST, given, strlen(given) > GIVEN_MOST ? "…" : "");
	cli_hint("%s", hint);
}

int id_lookup_element(struct cli *c, enum id_kind kind, const char *given, struct buf *ret)
{
	static const struct id_kind_row nested[] = {
		[ID_THREAD] = { "thread", "thr_", .member = "threadId", .hint = "bailiff thread list SESSION" },
		[ID_TURN] = { "turn", "turn_", .member = "turnId", .hint = "bailiff turn list THREAD" },
	};
	bool in_session = kind == ID_THREAD || kind == ID_TURN;
	struct id_search s = { .kind = in_session ? &nested[kind] : &id_kinds[kind], .given = given };
	struct session_search sessions = { c, &s, kind, 0 };
	struct err e = ERR_INIT;
	int r;

	r = in_session ? list_pages(c, "list_sessions", "sessions", NULL, search_session, &sessions, &e)
		       : search_list(c, kind, &s, &e);
	if (r < 0) {
		cli_fail(c, -1, &e, "%s", given);
	} else if (in_session && s.n == 0) { /* maybe an older one with an id of its client: the daemon decides */
		struct jw w = jw_on(&s.found);

		jw_obj(&w);
		jw_kstr(&w, s.kind->member, given);
		jw_obj_end(&w);
		s.n = 1;
		buf_append(ret, s.found.data, s.found.len);
	} else if (s.n == 1) {
		buf_append(ret, s.found.data, s.found.len);
	} else if (s.n) {
		cli_error("%s '%s' is ambiguous; it could be", s.kind->noun, given);
		cli_hint("%s", s.lines.data);
	} else if (kind != ID_SANDBOX || !print_closed_sandbox(c, given)) {
		mem_auto char *hint = mem_printf("%s lists them", s.kind->hint);

		print_no_match(s.kind->noun, given, hint);
	}
	search_done(&s);
	return s.n == 1 && r == 0 ? 0 : -1;
}

struct exact_search {
	const struct id_kind_row *kind;
	const char *id;
	struct buf *ret;
};

static bool take_exact(void *ctx, struct jval element)
{
	struct exact_search *s = ctx;

	if (!jval_is_str(jval_get(element, s->kind->member), s->id))
		return true;
	buf_append(s->ret, element.text, element.len);
	return false;
}

int id_read_element(struct cli *c, enum id_kind kind, const char *id, struct buf *ret)
{
	struct exact_search s = { &id_kinds[kind], id, ret };
	buf_auto struct buf filter = BUF_INIT;
	struct err ignored = ERR_INIT;

	buf_str(&filter, s.kind->filter);
	(void)list_pages(c, s.kind->method, s.kind->list, &filter, take_exact, &s, &ignored);
	return ret->len ? 0 : -1;
}

int id_lookup(struct cli *c, enum id_kind kind, const char *given, char ret[ID_LOOKUP_MAX])
{
	const struct id_kind_row *k = &id_kinds[kind];
	size_t n = strlen(k->prefix);
	buf_auto struct buf element = BUF_INIT;

	/* A complete id needs no lookup, which saves a request. */
	if (strncmp(given, k->prefix, n) == 0 && strlen(given) == n + RANDOM_PART) {
		snprintf(ret, ID_LOOKUP_MAX, "%s", given);
		return 0;
	}
	if (id_lookup_element(c, kind, given, &element) < 0)
		return -1;
	jval_str(jval_get(jval_of(element.data, element.len), kind == ID_THREAD ? "threadId"
							      : kind == ID_TURN ? "turnId"
										: k->member),
		 ret, ID_LOOKUP_MAX);
	return 0;
}

int id_lookup_connect(struct cli *c, char ret_process[ID_LOOKUP_MAX])
{
	return cli_connect(c, CLI_START_IF_STORE) < 0 ? -1 : id_lookup(c, ID_PROCESS, c->opts.args[0], ret_process);
}

int id_lookup_option(struct cli *c, int option, enum id_kind kind, const char *member, struct jw *w)
{
	const char *given = opts_get(&c->opts, option);
	char id[ID_LOOKUP_MAX];

	if (!given)
		return 0;
	if (id_lookup(c, kind, given, id) < 0)
		return -1;
	jw_kstr(w, member, id);
	return 0;
}

/* Which of the two searches has found it: the one that matches, by its whole id or name if both do; @last: the newer.
 */
static const struct id_search *decide(const struct id_search s[2], const char *given)
{
	char id[2][ID_LOOKUP_MAX];

	if (s[0].n + s[1].n == 1 || (s[0].n == 1 && s[0].whole && !s[1].whole))
		return &s[s[0].n == 0];
	if (s[1].n == 1 && s[1].whole && !s[0].whole)
		return &s[1];
	if (s[0].n != 1 || s[1].n != 1 || strcmp(given, LAST) != 0)
		return NULL;
	for (int i = 0; i < 2; i++) /* the time is what follows the prefix */
		jval_str(jval_get(jval_of(s[i].found.data, s[i].found.len), s[i].kind->member), id[i], ID_LOOKUP_MAX);
	return &s[strcmp(id[1] + strlen(s[1].kind->prefix), id[0] + strlen(s[0].kind->prefix)) > 0];
}

int id_lookup_sandbox_or_process(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	static const enum id_kind kinds[2] = { ID_SANDBOX, ID_PROCESS };
	struct id_search s[2] = { { .kind = &id_kinds[ID_SANDBOX], .given = given },
				  { .kind = &id_kinds[ID_PROCESS], .given = given } };
	struct err e = ERR_INIT;
	int found = -1;

	for (int i = 0; i < 2; i++)
		if (strncmp(given, id_kinds[kinds[i]].prefix, strlen(id_kinds[kinds[i]].prefix)) == 0)
			return id_lookup(c, kinds[i], given, ret) < 0 ? -1 : (int)kinds[i];
	bool failed = search_list(c, ID_SANDBOX, &s[0], &e) < 0 || search_list(c, ID_PROCESS, &s[1], &e) < 0;
	const struct id_search *one = failed ? NULL : decide(s, given);
	if (failed) {
		cli_fail(c, -1, &e, "%s", given);
	} else if (one) {
		jval_str(jval_get(jval_of(one->found.data, one->found.len), one->kind->member), ret, ID_LOOKUP_MAX);
		found = (int)kinds[one == &s[1]];
	} else if (s[0].n + s[1].n) {
		cli_error("'%s' is ambiguous; it could be", given);
		cli_hint("%s%s%s", buf_cstr(&s[0].lines), s[0].n && s[1].n ? "\n  " : "", buf_cstr(&s[1].lines));
	} else if (!print_closed_sandbox(c, given)) {
		print_no_match("sandbox or process", given, "bailiff sandbox list and bailiff ps -a list them");
	}
	search_done(&s[0]);
	search_done(&s[1]);
	return found;
}
