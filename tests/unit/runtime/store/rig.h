#ifndef BAILIFF_TESTS_STORE_RIG_H
#define BAILIFF_TESTS_STORE_RIG_H

/* A store in a temporary directory, a small projection, and functions that wait for the store. */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "tests/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct rig {
	char dir[128], store_dir[144], spool_dir[144];
	struct store_options o;
	struct store *s;
	/* of the last result that rig_result received */
	unsigned decided, failed;
	struct store_result last;
	struct err err;
};

/* Kind 1: events of each session, kind 2: the last sequence of each process; documents of kind 3 are created and
 * removed. */
static inline int rig_fold(struct models *m, const struct event_view *ev, struct err *e)
{
	const struct id_text *id = &ev->ids[ID_SESSION];
	unsigned long long count = 0;
	const char *old;
	char text[64];
	size_t n;
	int rc = models_get(m, 1, id->text, id->len, &old, &n, e);

	if (rc < 0)
		return -1;
	if (rc == 0)
		count = jval_uint(jval_get(jval_of(old, n), "count"), 0);
	n = (size_t)snprintf(text, sizeof(text), "{\"count\":%llu}", count + 1);
	if (models_put(m, 1, id->text, id->len, text, n, e) != 0)
		return -1;
	id = &ev->ids[ID_PROCESS];
	if (!id->text)
		return 0;
	n = (size_t)snprintf(text, sizeof(text), "{\"last\":%llu}", (unsigned long long)ev->sequence);
	if (models_put(m, 2, id->text, id->len, text, n, e) != 0)
		return -1;
	return ev->sequence % 2 ? models_put(m, 3, id->text, id->len, "{}", 2, e)
				: models_del(m, 3, id->text, id->len, e);
}

static inline int rig_rm(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static inline void rig_at(struct rig *r, const char *dir)
{
	static const uint8_t growing[] = { 1, 2, 0 };

	memset(r, 0, sizeof(*r));
	snprintf(r->dir, sizeof(r->dir), "%s", dir);
	snprintf(r->store_dir, sizeof(r->store_dir), "%s/store", r->dir);
	snprintf(r->spool_dir, sizeof(r->spool_dir), "%s/spool", r->dir);
	r->o = (struct store_options){
		.dir = r->store_dir,
		.spool_dir = r->spool_dir,
		.map_bytes = 1u << 30,
		.ballast_bytes = 64 * 1024,
		.project = rig_fold,
		.growing_models = growing,
	};
	log_setup("test", LOG_LEVEL_ERROR, false);
}

static inline void rig_init(struct rig *r)
{
	char dir[] = "/tmp/bailiff-store-XXXXXX";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	rig_at(r, dir);
}

/* In /dev/shm, where a sync takes no time, if it exists. */
static inline void rig_init_quick(struct rig *r)
{
	char dir[] = "/dev/shm/bailiff-store-XXXXXX";

	if (mkdtemp(dir))
		rig_at(r, dir);
	else
		rig_init(r);
}

static inline void rig_open(struct rig *r)
{
	struct err e = ERR_INIT;

	ck_assert_msg(store_open(&r->o, &r->s, &e) == 0, "%s", e.message);
}

static inline void rig_close(struct rig *r)
{
	store_close(r->s);
	r->s = NULL;
}

static inline void rig_done(struct rig *r)
{
	rig_close(r);
	nftw(r->dir, rig_rm, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int rig_draft_event(struct store_batch *b, enum event_type type, const char *session, const char *process,
				  unsigned n, struct err *e)
{
	struct event_draft d = { .type = type, .uid = 1000 };
	char payload[256];

	d.ids[ID_SESSION] = session;
	d.ids[ID_PROCESS] = process;
	if (type == EVENT_PROCESS_OUTPUT) {
		d.ids[ID_THREAD] = "thread_1";
		d.ids[ID_TURN] = "turn_1";
		d.ids[ID_OUTPUT] = "out_1";
		snprintf(payload, sizeof(payload),
			 "{\"stream\":\"stdout\",\"offset\":%u,\"length\":1,\"preview\":\"x\",\"encoding\":\"utf8\","
			 "\"previewBytes\":1}",
			 n);
	} else {
		snprintf(payload, sizeof(payload), "{\"code\":\"test\",\"detail\":\"number %u\",\"advice\":\"none\"}",
			 n);
	}
	d.payload = payload;
	d.payload_len = strlen(payload);
	return store_batch_event(b, &d, e);
}

static inline void rig_event(struct store_batch *b, enum event_type type, const char *session, const char *process,
			     unsigned n)
{
	struct err e = ERR_INIT;

	if (rig_draft_event(b, type, session, process, n, &e) != 0)
		ck_abort_msg("%s: %s", e.field, e.message);
}

static inline void rig_result(void *ctx, const struct store_result *res)
{
	struct rig *r = ctx;

	r->decided++;
	r->last = *res;
	if (res->status != 0) {
		r->failed++;
		r->err = *res->err;
		r->last.err = &r->err;
	}
}

/* Dispatches until the flag is set. */
static inline void rig_wait(struct rig *r, const bool *flag)
{
	while (!*flag) {
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

		ck_assert_int_ge(poll(&p, 1, 60000), 1);
		store_dispatch(r->s);
	}
}

/* n batches of one event, each committed before the next; stops when one is rejected. */
static inline unsigned rig_append(struct rig *r, unsigned n, const char *session, const char *process)
{
	for (unsigned i = 0; i < n; i++) {
		struct store_batch *b = store_batch_new(r->s);
		unsigned failed = r->failed;

		rig_event(b, EVENT_RUNTIME_WARNING, session, process, i);
		store_submit(r->s, b, 0, rig_result, r);
		store_flush(r->s);
		if (r->failed != failed)
			return i;
	}
	return n;
}

struct rig_verdict {
	bool done, failed;
	struct store_verdict v;
	struct err e;
};

static inline void rig_verdict_cb(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct rig_verdict *x = ctx;

	x->done = true;
	x->failed = e != NULL;
	x->v = *v;
	if (e)
		x->e = *e;
}

static inline struct rig_verdict rig_verify(struct rig *r)
{
	struct rig_verdict x = { 0 };

	store_verify(r->s, rig_verdict_cb, &x);
	rig_wait(r, &x.done);
	return x;
}

static inline void rig_verify_ok(struct rig *r)
{
	struct rig_verdict x = rig_verify(r);

	ck_assert_msg(!x.failed, "%s", x.e.message);
	ck_assert_msg(x.v.ok, "%zu problems, first: %s", x.v.nproblems, x.v.problems[0].what);
	ck_assert_uint_eq(x.v.events, x.v.last_sequence + 1 - x.v.first_sequence);
}

struct rig_job {
	bool done, failed;
	uint64_t a, b;
	struct err e;
};

static inline void rig_job_end(struct rig_job *j, uint64_t a, uint64_t b, const struct err *e)
{
	j->done = true;
	j->failed = e != NULL;
	j->a = a;
	j->b = b;
	if (e)
		j->e = *e;
}

static inline void rig_prune_cb(void *ctx, uint64_t removed, const struct err *e) { rig_job_end(ctx, removed, 0, e); }

static inline void rig_compact_cb(void *ctx, uint64_t before, uint64_t after, const struct err *e)
{
	rig_job_end(ctx, before, after, e);
}

static inline void rig_backup_cb(void *ctx, const struct err *e) { rig_job_end(ctx, 0, 0, e); }

static inline struct rig_job rig_prune(struct rig *r, uint64_t floor, uint64_t idem_before)
{
	struct rig_job j = { 0 };

	store_prune(r->s, floor, idem_before, rig_prune_cb, &j);
	rig_wait(r, &j.done);
	return j;
}

/* Sequences that a query returns; they must ascend. */
struct rig_seen {
	unsigned count;
	uint64_t first, last;
	unsigned stop_at; /* 0 = never */
	bool gapless;
};

static inline bool rig_see(void *ctx, const struct event_view *ev)
{
	struct rig_seen *x = ctx;

	if (x->count && ev->sequence <= x->last) /* an assertion writes to a pipe: too slow for each event */
		ck_abort_msg("event %llu after event %llu", (unsigned long long)ev->sequence,
			     (unsigned long long)x->last);
	if (x->count == 0)
		x->first = ev->sequence;
	else if (ev->sequence != x->last + 1)
		x->gapless = false;
	x->last = ev->sequence;
	x->count++;
	return !x->stop_at || x->count < x->stop_at;
}

static inline struct rig_seen rig_events(struct rig *r, uint64_t after, uint64_t before, int index, const char *id)
{
	struct store_query q = { .after = after, .before = before, .index = index, .id = id };
	struct rig_seen x = { .gapless = true };
	struct err e = ERR_INIT;

	ck_assert_msg(store_events(r->s, &q, rig_see, &x, &e) == 0, "%s", e.message);
	return x;
}

/* Flips one bit of a file. */
static inline void rig_flip(const char *path, off_t at)
{
	int fd = open(path, O_RDWR);
	unsigned char c;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, &c, 1, at), 1);
	c ^= 0x10;
	ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
	close(fd);
}

/* Offset of the first occurrence of a text in a file, or −1. */
static inline off_t rig_find(const char *path, const char *text, size_t n)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	off_t at = -1;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	char *p = mem_alloc((size_t)st.st_size + 1);
	ck_assert_int_eq(pread(fd, p, (size_t)st.st_size, 0), st.st_size);
	char *hit = memmem(p, (size_t)st.st_size, text, n);
	if (hit)
		at = hit - p;
	free(p);
	close(fd);
	return at;
}

#define RIG_TEST(name)         \
	START_TEST(name)       \
	{                      \
		struct rig r;  \
		rig_init(&r);  \
		name##_in(&r); \
		rig_done(&r);  \
	}                      \
	END_TEST

#endif
