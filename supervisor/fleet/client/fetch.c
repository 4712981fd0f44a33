/* `fleet diff` and `evidence`: texts that stay on the node that ran the task, read in pieces. */

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FETCH_MAX (1ull << 30)

/* Passes each piece to `fd`, or appends it to `all`. */
static int fetch(struct connection *x, const struct fleet_task *t, const char *verb, int fd, struct buf *all,
		 struct err *e)
{
	for (uint64_t offset = 0; offset < FETCH_MAX;) {
		buf_auto struct buf header = BUF_INIT, bytes = BUF_INIT;
		mem_auto char *args = mem_printf("\"offset\":%llu,\"limit\":%u", (unsigned long long)offset,
						 FLEET_CHUNK / 2);
		int r = connection_ask(x, t, verb, args, &header, &bytes, e);

		if (r == 1)
			return err_set(e, ERR_UNAVAILABLE, "node %s does not answer; it has the only copy", t->node);
		if (r < 0)
			return -1;
		if (all)
			buf_append(all, bytes.data, bytes.len);
		else if (fd_write_all(fd, bytes.data, bytes.len) < 0)
			return err_sys(e, errno, "write");
		offset += bytes.len;
		if (jval_bool(jval_get(jval_of(header.data, header.len), "end"), false))
			return 0;
		if (!bytes.len)
			return err_set(e, ERR_INTERNAL, "node %s sent an empty piece", t->node);
	}
	return err_set(e, ERR_EXHAUSTED, "more than %llu MiB", (unsigned long long)(FETCH_MAX >> 20));
}

int fleet_diff(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	buf_auto struct buf text = BUF_INIT, shown = BUF_INIT;
	struct jw w = jw_on(&shown);
	struct err e = ERR_INIT;
	int status;

	if ((status = connection_open(c, true, &x)) || (status = connection_find(&x, false, &list)))
		return status;
	const struct fleet_task *t = &list.v[0].task;
	if (!t->spec.cow) {
		cli_error("fleet diff: task %s was not submitted with --cow", t->spec.id);
		return EXIT_FAILED;
	}
	if (fetch(&x, t, "diff", -1, &text, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "fleet diff");
	if (!cli_as_json(c)) {
		text_sanitize(buf_cstr(&text), text.len, &shown);
		return format_out(&shown);
	}
	jw_obj(&w);
	jw_kstr(&w, "taskId", t->spec.id);
	jw_kstr(&w, "node", t->node);
	jw_kstrn(&w, "diff", buf_cstr(&text), text.len);
	jw_obj_end(&w);
	return format_record(jval_of(shown.data, shown.len), true);
}

/* A file is replaced once the text is complete; anything else, such as a pipe, is written to. */
static int open_output(const char *path, char **ret_partial)
{
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return open(path, O_WRONLY | O_CLOEXEC);
	*ret_partial = mem_printf("%s.XXXXXX", path);
	return mkostemp(*ret_partial, O_CLOEXEC);
}

int fleet_evidence(struct cli *c)
{
	connection_auto struct connection x = { 0 };
	fleet_entries_auto struct fleet_entries list = { 0 };
	const char *path = opts_get(&c->opts, OPT_fleet_OUTPUT);
	mem_auto char *partial = NULL;
	struct err e = ERR_INIT;
	int status;

	if ((status = connection_open(c, true, &x)) || (status = connection_find(&x, false, &list)))
		return status;
	fd_auto int file = path ? open_output(path, &partial) : -1;
	if (path && file < 0) {
		cli_error("fleet evidence: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	int r = fetch(&x, &list.v[0].task, "evidence", path ? file : STDOUT_FILENO, NULL, &e);
	if (r == 0 && partial && rename(partial, path) < 0)
		r = err_sys(&e, errno, "%s", path);
	if (r == 0)
		return 0;
	if (partial)
		(void)unlink(partial);
	return cli_fail(c, EXIT_FAILED, &e, "fleet evidence");
}
