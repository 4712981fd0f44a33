#include "supervisor/host/rule_writer.h"

#include "policy/policy_edit.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/host/guard_link.h"
#include "supervisor/host/peer_files_link.h"
#include "supervisor/host/workspace_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The file belongs to the user, whose editor may write it at any time, and there is no lock that editors respect. So a
 * write is optimistic: read the file with its stamp, edit the text, replace the file only if it still has that stamp,
 * else start over. The helper runs as the user; the runtime never opens the file.
 *
 * A write whose helper died may or may not have happened. Reading again decides: policy_edit_add leaves a text
 * unchanged that has the rule already.
 *
 * Writes are serialised, so that two of them do not make each other start over.
 */

#define TRIES_MAX 5u  /* of one write: then the file "keeps changing" */
#define QUEUE_MAX 32u /* writes that wait; each one follows from an approval */

struct rule_write {
	TAILQ_ENTRY(rule_write) link;
	struct rule_writer *rule_writer;
	uint32_t uid;
	int peer_fd;
	char *id, *list, **rule;
	size_t count;
	unsigned tries;
	struct peer_files_link *look;
	/* the file's stamp, text and path when it was read */
	struct peer_files_write write;
	struct buf text;
	int error;
	char path[PATH_MAX];
	/* of the rule in the new text */
	unsigned line;
	bool loading;          /* written; waits for the reload */
	uint32_t reload_token; /* of that */
};

void rule_writer_init(struct rule_writer *k, struct event_base *base, struct engine *engine, struct spawn_link *spawner,
		      struct guard_link *guard, struct workspace_policies *workspaces, bool peers)
{
	*k = (struct rule_writer){ .base = base,
				   .engine = engine,
				   .spawner = spawner,
				   .guard = guard,
				   .workspaces = workspaces,
				   .peers = peers };
	TAILQ_INIT(&k->queue);
}

static void rule_write_free(struct rule_write *j)
{
	TAILQ_REMOVE(&j->rule_writer->queue, j, link);
	peer_files_link_free(j->look);
	fd_close(&j->peer_fd);
	for (size_t i = 0; i < j->count; i++)
		free(j->rule[i]);
	free(j->rule);
	free(j->id);
	free(j->list);
	buf_done(&j->text);
	free(j);
}

void rule_writer_done(struct rule_writer *k)
{
	while (!TAILQ_EMPTY(&k->queue))
		rule_write_free(TAILQ_FIRST(&k->queue));
}

static void begin_write(struct rule_writer *k);

/* Freed before the report, so that the report may add another write; then the next one starts. */
static void finish_write(struct rule_write *j, const struct err *e)
{
	struct rule_writer *k = j->rule_writer;
	mem_auto char *id = mem_strdup(j->id), *path = mem_strdup(j->path);
	unsigned line = j->line;

	rule_write_free(j);
	engine_on_rule_written(k->engine, id, path, line, e);
	begin_write(k);
}

static void give_up(struct rule_write *j, int error, const struct err *e)
{
	struct err why = ERR_INIT;

	if (e)
		why = *e;
	else
		err_set(&why, ERR_UNAVAILABLE, "%.200s: %s", j->path[0] ? j->path : "policy.json",
			error == ELOOP    ? "it is a symbolic link"
			: error == EINVAL ? "it is not a regular file"
			: error == EFBIG  ? "it is larger than 1 MiB"
			: error == EAGAIN ? "it keeps changing; giving up"
					  : strerror(error));
	finish_write(j, &why);
}

/* ---- writing ---- */

static void read_again(struct rule_write *j);

static void on_written(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds)
{
	struct rule_write *j = ctx;

	j->error = a->error;
}

/* With a file per peer the cache is dropped and the rule applies at once; otherwise the guard must reload the file. */
static void on_file_replaced(struct rule_write *j)
{
	if (j->rule_writer->peers) {
		workspace_policies_forget(j->rule_writer->workspaces, j->uid);
		finish_write(j, NULL);
		return;
	}
	j->loading = true;
	j->reload_token = guard_link_want_reload(j->rule_writer->guard);
}

/* EAGAIN: the file was written since it was read. Both this and a dead helper start over with reading. */
static void on_write_over(void *ctx, const struct err *e)
{
	struct rule_write *j = ctx;

	j->look = NULL;
	/* The helper may have died before or after it wrote: reading again tells which. */
	if ((e || j->error == EAGAIN) && ++j->tries < TRIES_MAX)
		read_again(j);
	else if (e)
		give_up(j, 0, e);
	else if (j->error)
		give_up(j, j->error, NULL);
	else
		on_file_replaced(j);
}

/* A reload that was requested earlier may not contain the rule yet. */
void rule_writer_on_reload(struct rule_writer *k, uint32_t token)
{
	struct rule_write *j = TAILQ_FIRST(&k->queue);

	if (j && j->loading && (int32_t)(token - j->reload_token) >= 0)
		finish_write(j, NULL);
}

/* The stamp in j->write makes the helper fail with EAGAIN if the file was written since it was read. */
static void write_text(struct rule_write *j)
{
	static const struct peer_files_link_events on = { on_written, on_write_over };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	buf_append(&out, (const char *)&j->write, sizeof j->write);
	if (policy_edit_add(buf_cstr(&j->text), j->text.len, j->list, (const char *const *)j->rule, j->count, &out,
			    &j->line, &e) < 0) {
		err_wrap(&e, "%.200s", j->path);
		give_up(j, 0, &e);
		return;
	}
	if (out.len - sizeof j->write == j->text.len &&
	    memcmp(out.data + sizeof j->write, j->text.data, j->text.len) == 0) {
		if (j->tries) /* the rule may be there because of an earlier attempt of this write, which still has to
				 take effect */
			on_file_replaced(j);
		else
			finish_write(j, NULL);
		return;
	}
	j->error = EIO;
	j->look = peer_files_link_new(j->rule_writer->base, j->rule_writer->spawner, PEER_FILES_WRITE, out.data,
				      out.len, j->peer_fd, &on, j);
	if (!j->look)
		give_up(j, errno, NULL);
}

/* ---- reading ---- */

/* The reply comes from a process that runs as the peer: the size is checked before the text is read. */
static void on_read(void *ctx, const struct peer_files_reply *a, int *fds, size_t nfds)
{
	struct rule_write *j = ctx;
	struct stat st;

	j->error = a->error;
	snprintf(j->path, sizeof j->path, "%s", a->path);
	buf_reset(&j->text);
	if (a->error || !nfds || !a->nwatch)
		return;
	j->write = (struct peer_files_write){ .exists = 1, .stamp = a->watch[a->nwatch - 1] };
	if (fstat(fds[nfds - 1], &st) < 0 || st.st_size > (off_t)PEER_FILES_TEXT_MAX) {
		j->error = EIO;
		return;
	}
	ssize_t n = pread(fds[nfds - 1], buf_reserve(&j->text, (size_t)st.st_size), (size_t)st.st_size, 0);
	buf_extend(&j->text, n < 0 ? 0 : (size_t)n);
	j->error = n < 0             ? errno
		   : n == st.st_size ? 0
				     : EIO; /* after a short read the rest of the rules would be overwritten */
}

static void on_read_over(void *ctx, const struct err *e)
{
	struct rule_write *j = ctx;

	j->look = NULL;
	if (e)
		give_up(j, 0, e);
	else if (j->error && j->error != ENOENT)
		give_up(j, j->error, NULL);
	else
		write_text(j);
}

static int read_begin(struct rule_write *j)
{
	static const struct peer_files_link_events on = { on_read, on_read_over };

	buf_reset(&j->text);
	j->write = (struct peer_files_write){ 0 };
	j->error = ENOENT;
	j->look = peer_files_link_new(j->rule_writer->base, j->rule_writer->spawner, PEER_FILES_USER, "", 0, j->peer_fd,
				      &on, j);
	return j->look ? 0 : -1;
}

static void read_again(struct rule_write *j)
{
	if (read_begin(j) < 0)
		give_up(j, errno, NULL);
}

static void begin_write(struct rule_writer *k)
{
	struct rule_write *j = TAILQ_FIRST(&k->queue);

	if (j && !j->look && !j->loading)
		read_again(j);
}

/* The first in the queue is in progress; the others start when it is finished. */
int rule_writer_add(struct rule_writer *k, const struct port_rule *r, struct err *e)
{
	struct rule_write *j;
	size_t n = 0;

	TAILQ_FOREACH (j, &k->queue, link)
		n++;
	if (n >= QUEUE_MAX)
		return err_set(e, ERR_EXHAUSTED, "too many rules are being written; try again");
	j = mem_zalloc(1, sizeof *j);
	j->rule_writer = k;
	j->uid = r->uid;
	j->peer_fd = fcntl(r->peer_fd, F_DUPFD_CLOEXEC, 3);
	j->id = mem_strdup(r->id);
	j->list = mem_strdup(r->list);
	j->rule = mem_zalloc(r->count + 1, sizeof *j->rule);
	for (; j->count < r->count; j->count++)
		j->rule[j->count] = mem_strdup(r->rule[j->count]);
	TAILQ_INSERT_TAIL(&k->queue, j, link);
	/* engine_on_rule_written is called after this returns, never from inside. */
	if (!n && read_begin(j) < 0) {
		err_sys(e, errno, "read the policy file");
		rule_write_free(j);
		return -1;
	}
	return 0;
}
