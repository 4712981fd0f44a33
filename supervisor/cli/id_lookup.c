#include "supervisor/cli/id_lookup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/remote.h"

#include <stdio.h>
#include <string.h>

#define RANDOM_PART 26 /* characters of a generated id after its prefix */
#define CANDIDATES 8
#define PAGE 1000

/* A complete id needs no lookup, which saves a request. */
static bool is_whole(const char *given, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(given, prefix, n) == 0 && strlen(given) == n + RANDOM_PART;
}

static void copy_id(struct jval v, char ret[ID_LOOKUP_MAX]) { jval_str(v, ret, ID_LOOKUP_MAX); }

/* The daemon matches by prefix, so an exact match wins over ambiguity. */
static int pick_process(struct jval list, const char *given, char ret[ID_LOOKUP_MAX])
{
	size_t n = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it); n++) {
		copy_id(jval_get(it.value, "processId"), ret);
		if (strcmp(ret, given) == 0)
			return 0;
	}
	if (n == 1)
		return 0;
	if (n == 0) {
		cli_error("no process matches '%s'", given);
		cli_hint("bailiff ps -a lists them");
		return -1;
	}
	cli_error("'%s' is ambiguous; it could be", given);
	n = 0;
	for (struct jiter it = jiter_on(list); jiter_next(&it) && n < CANDIDATES; n++) {
		buf_auto struct buf line = BUF_INIT;
		char id[ID_LOOKUP_MAX], status[32];

		copy_id(jval_get(it.value, "processId"), id);
		jval_str(jval_get(it.value, "status"), status, sizeof(status));
		format_command(it.value, &line);
		cli_hint("%s  %-10s  %.60s", id, status, buf_cstr(&line));
	}
	return -1;
}

int id_lookup_process(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	buf_auto struct buf params = BUF_INIT;
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	if (is_whole(given, "proc_")) {
		snprintf(ret, ID_LOOKUP_MAX, "%s", given);
		return 0;
	}
	jw_obj(&w);
	jw_kstr(&w, "match", given);
	jw_kuint(&w, "limit", CANDIDATES);
	jw_obj_end(&w);
	if (cli_call(c, "list_processes", &params, &a, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	return pick_process(jval_get(a.result, "processes"), given, ret);
}

/* A kind of record that can be listed, and how to look up its ids. */
struct id_lookup_kind {
	const char *prefix, *method, *list, *member, *noun, *hint;
};

static bool id_matches(const struct id_lookup_kind *k, const char *id, const char *given)
{
	size_t n = strlen(given), p = strlen(k->prefix);

	return strncmp(id, given, n) == 0 || (strncmp(id, k->prefix, p) == 0 && strncmp(id + p, given, n) == 0);
}

/* Searches one page: counts the matches so far and keeps the first. 1: an exact match ends the search. */
static int match_page(const struct id_lookup_kind *k, struct jval list, const char *given, size_t *found,
		      char ret[ID_LOOKUP_MAX])
{
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		char id[ID_LOOKUP_MAX];

		copy_id(jval_get(it.value, k->member), id);
		if (strcmp(id, given) == 0) {
			memcpy(ret, id, sizeof(id));
			*found = 1;
			return 1;
		}
		if (id_matches(k, id, given) && (*found)++ == 0)
			memcpy(ret, id, sizeof(id));
	}
	return 0;
}

static int id_lookup_listed(struct cli *c, const struct id_lookup_kind *k, const char *given, char ret[ID_LOOKUP_MAX])
{
	char cursor[128] = "";
	struct err e = ERR_INIT;
	size_t found = 0;

	if (is_whole(given, k->prefix)) {
		snprintf(ret, ID_LOOKUP_MAX, "%s", given);
		return 0;
	}
	do {
		buf_auto struct buf params = BUF_INIT;
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		struct jw w = jw_on(&params);

		jw_obj(&w);
		jw_kuint(&w, "limit", PAGE);
		if (cursor[0])
			jw_kstr(&w, "cursor", cursor);
		jw_obj_end(&w);
		if (cli_call(c, k->method, &params, &a, &e) < 0)
			return cli_fail(c, -1, &e, "%s", given);
		if (match_page(k, jval_get(a.result, k->list), given, &found, ret))
			break;
		jval_str(jval_get(a.result, "nextCursor"), cursor, sizeof(cursor));
	} while (cursor[0]);
	if (found == 1)
		return 0;
	if (found)
		cli_error("%s '%s' is ambiguous: %zu match", k->noun, given, found);
	else
		cli_error("no %s matches '%s'", k->noun, given);
	cli_hint("%s", k->hint);
	return -1;
}

int id_lookup_session(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	static const struct id_lookup_kind k = { "sess_",     "list_sessions", "sessions",
						 "sessionId", "session",       "bailiff session list shows them" };

	return id_lookup_listed(c, &k, given, ret);
}

int id_lookup_task(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	static const struct id_lookup_kind k = { "task_",  "list_tasks", "tasks",
						 "taskId", "task",       "bailiff task list -a shows them" };

	return id_lookup_listed(c, &k, given, ret);
}

int id_lookup_job(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	static const struct id_lookup_kind k = { "job_",  "list_jobs", "jobs",
						 "jobId", "job",       "bailiff job list -a shows them" };

	return id_lookup_listed(c, &k, given, ret);
}
