/* `history`: searches the processes that ever ran. The daemon searches for a bounded time in each call; this continues
 * until there are enough, or no more. */

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_DEFAULT 50
#define PAGE_MAX 1000u

/* "2h" (ago), or a date with or without a time, local unless it ends in Z or an offset. */
static int parse_when(const char *text, uint64_t *ret_ms, struct err *e)
{
	static const char *const forms[] = { "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S",
					     "%Y-%m-%dT%H:%M:%S" };
	struct err ignored = ERR_INIT;
	uint64_t ago, us;

	if (text_duration_ms(text, &ago, &ignored) == 0) {
		us = clock_real_us();
		*ret_ms = us / 1000 > ago ? us / 1000 - ago : 0;
		return 0;
	}
	if (clock_parse(text, &us) == 0) {
		*ret_ms = us / 1000;
		return 0;
	}
	for (size_t i = 0; i < countof(forms); i++) {
		struct tm tm = { .tm_isdst = -1 };
		const char *end = strptime(text, forms[i], &tm);
		time_t at = end && !*end ? mktime(&tm) : -1;

		if (at >= 0) {
			*ret_ms = (uint64_t)at * 1000;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%s' is not a time; expected 2h (ago), 2026-01-31, or \"2026-01-31 12:00\"",
		       text);
}

static int write_when(struct cli *c, int option, const char *member, struct jw *w)
{
	const char *text = opts_get(&c->opts, option);
	struct err e = ERR_INIT;
	uint64_t ms = 0;

	if (!text)
		return 0;
	if (parse_when(text, &ms, &e) < 0)
		return cli_usage(c, "option '--%s': %s", member, e.message);
	jw_kuint(w, member, ms);
	return 0;
}

/* The conditions, as members of the request. 0, or the exit status. */
static int write_conditions(struct cli *c, struct jw *w)
{
	const char *exit = opts_get(&c->opts, OPT_history_EXIT), *cwd = opts_get(&c->opts, OPT_history_CWD);
	char whole[PATH_MAX], *end;
	int status;

	if ((status = write_when(c, OPT_history_SINCE, "since", w)) ||
	    (status = write_when(c, OPT_history_UNTIL, "until", w)))
		return status;
	if (exit && strcmp(exit, "nonzero") == 0)
		jw_kstr(w, "exit", exit);
	else if (exit && *exit >= '0' && *exit <= '9' && (strtoul(exit, &end, 10) <= 255 && !*end))
		jw_kuint(w, "exit", strtoul(exit, NULL, 10));
	else if (exit)
		return cli_usage(c, "option '--exit': '%s' is not nonzero or a status from 0 to 255", exit);
	if (cwd && !realpath(cwd, whole)) /* of a directory that is gone, what was given */
		(void)snprintf(whole, sizeof(whole), "%s", cwd);
	if (cwd && whole[0] != '/')
		return cli_usage(c, "option '--cwd': there is no '%s' here", cwd);
	if (cwd)
		jw_kstr(w, "cwd", whole);
	return noun_options(c, "grep output user session=session:session host path denied:yes helpers:yes", w);
}

/* Pages until `limit` processes are found. */
static int search(struct cli *c, const struct buf *conditions, uint64_t limit, struct jw *list, struct err *e)
{
	char before[ID_LOOKUP_MAX] = "";
	uint64_t found = 0;

	do {
		request_auto struct request q = REQUEST_INIT(q);

		buf_append(&q.params, buf_cstr((struct buf *)(uintptr_t)conditions), conditions->len);
		q.w.need_comma = conditions->len > 0;
		jw_kuint(&q.w, "limit", limit - found < PAGE_MAX ? limit - found : PAGE_MAX);
		if (before[0])
			jw_kstr(&q.w, "before", before);
		if (request_read(c, &q, "search_history") < 0) {
			*e = q.e;
			return -1;
		}
		for (struct jiter it = jiter_on(jval_get(q.result, "processes")); jiter_next(&it); found++)
			jw_raw(list, it.value.text, it.value.len);
		jval_str(jval_get(q.result, "next"), before, sizeof(before));
	} while (before[0] && found < limit);
	return 0;
}

int cmd_history(struct cli *c)
{
	const char *given = opts_get(&c->opts, OPT_history_LIMIT);
	buf_auto struct buf conditions = BUF_INIT, all = BUF_INIT;
	struct jw w = jw_on(&conditions), list = jw_on(&all);
	struct err e = ERR_INIT;
	uint64_t limit = LIMIT_DEFAULT;
	char *end = NULL;
	int status;

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'; --grep searches the commands", c->opts.args[0]);
	if (given && (*given < '0' || *given > '9' || !(limit = strtoull(given, &end, 10)) || *end))
		return cli_usage(c, "option '--limit': '%s' is not a number from 1 on", given);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if ((status = write_conditions(c, &w)))
		return status;
	jw_arr(&list);
	if (search(c, &conditions, limit, &list, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "history");
	jw_arr_end(&list);
	return format_columns("PROCESS=processId STATUS=status:status EXIT=:exit STARTED=startedAt:ago "
			      "DURATION=:duration USER=user COMMAND=:command",
			      jval_of(all.data, all.len), cli_as_json(c));
}
