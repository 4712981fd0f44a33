#ifndef BAILIFF_TESTS_APPENDER_H
#define BAILIFF_TESTS_APPENDER_H

/* A child that appends to a store, with an output that it cites, and reports acknowledgements through a pipe until it
 * is killed. */

#include "runtime/store/spool.h"
#include "tests/unit/runtime/store/rig.h"

#include <errno.h>

/* What the child reports after a batch was committed (the control: when it was submitted). */
struct ack {
	uint64_t last;
	uint64_t spooled; /* bytes of out_1 that events cite */
};

struct appender {
	struct rig *r;
	int pipe;
	bool early;
	struct spool_file spool;
	uint64_t cited, submitted;
	struct ack pending[64];
	unsigned in_flight, head;
};

static inline void appender_report(struct appender *c, const struct ack *a)
{
	if (write(c->pipe, a, sizeof(*a)) != sizeof(*a))
		_exit(0);
}

static inline void appender_done(void *ctx, const struct store_result *res)
{
	struct appender *c = ctx;
	struct ack a = c->pending[c->head % 64];

	if (res->status != 0)
		_exit(3);
	if (a.last != res->last_sequence)
		_exit(4);
	c->head++;
	c->in_flight--;
	if (!c->early)
		appender_report(c, &a);
}

static inline void appender_submit(struct appender *c, unsigned i)
{
	struct store_batch *b = store_batch_new(c->r->s);
	unsigned events = 1 + i % 4;
	struct ack a;

	for (unsigned k = 0; k < events; k++)
		rig_event(b, k % 2 ? EVENT_PROCESS_OUTPUT : EVENT_RUNTIME_WARNING, i % 2 ? "sess_a" : "sess_b",
			  "proc_1", i);
	if (i % 3 == 0) {
		char bytes[700];

		for (size_t k = 0; k < sizeof(bytes); k++)
			bytes[k] = (char)(c->spool.size + k);
		if (pwrite(c->spool.fd, bytes, sizeof(bytes), (off_t)c->spool.size) != (ssize_t)sizeof(bytes))
			_exit(5);
		c->spool.size += sizeof(bytes);
		store_batch_spool(b, "out_1", c->spool.fd, c->cited, c->spool.size - c->cited);
		c->cited = c->spool.size;
	}
	c->submitted += events;
	a = (struct ack){ .last = c->submitted, .spooled = c->cited };
	c->pending[(c->head + c->in_flight) % 64] = a;
	c->in_flight++;
	if (c->early)
		appender_report(c, &a);
	store_submit(c->r->s, b, 0, appender_done, c);
}

/*
 * Bytes from before the last crash that no event cites are cited now, so that nothing of a stream is lost. After a
 * power cut (`cut`) such bytes may have any content, even if the file is long enough, so they are dropped.
 */
static inline void appender_main(struct rig *r, int fd, bool early, bool cut)
{
	struct appender c = { .r = r, .pipe = fd, .early = early };
	struct err e = ERR_INIT;
	int dir;

	if (store_open(&r->o, &r->s, &e) != 0) {
		fprintf(stderr, "# child: %s\n", e.message);
		_exit(2);
	}
	c.submitted = store_last_sequence(r->s);
	dir = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
	if (spool_open(dir, "out_1", 0, &c.spool, &e) != 0)
		_exit(2);
	{
		buf_auto struct buf out = BUF_INIT;

		while (c.cited < c.spool.size) {
			buf_reset(&out);
			if (store_output_read(r->s, "out_1", c.cited, 1 << 20, &out, &e) != 0)
				_exit(6);
			if (out.len == 0)
				break;
			c.cited += out.len;
		}
	}
	if (cut && ftruncate(c.spool.fd, (off_t)c.cited) == 0)
		c.spool.size = c.cited;
	for (unsigned i = 0;;) {
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

		do
			appender_submit(&c, i++);
		while (c.in_flight < 32 && i % 40);
		poll(&p, 1, 1000);
		store_dispatch(r->s);
		if (i % 400 == 0) { /* a pause, after which the writer prepares for the next one */
			usleep(3000);
			store_prepare(r->s);
			usleep(100);
		}
	}
}

/* The number of bytes of its output; checks that each is the one that it wrote. */
static inline uint64_t appender_bytes(struct rig *r)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t n = 0;

	for (;;) {
		buf_reset(&out);
		ck_assert_msg(store_output_read(r->s, "out_1", n, 1 << 20, &out, &e) == 0, "%s", e.message);
		if (out.len == 0)
			return n;
		for (size_t i = 0; i < out.len; i++)
			if ((unsigned char)out.data[i] != (unsigned char)(n + i))
				ck_abort_msg("byte %llu is wrong", (unsigned long long)(n + i));
		n += out.len;
	}
}

#endif
