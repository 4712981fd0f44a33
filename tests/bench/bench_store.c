/*
 * How fast events become durable: events of about 600 bytes, each acknowledged after its commit, one, ten and a hundred
 * at a time, and 10,000 per second for a while with the latency of each. For comparison, in the same run and directory,
 * a peer that only appends the same bytes to a file and calls fdatasync: the minimal cost of durability on this disk.
 *
 * bench_store [SECONDS [DIR]]
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RATE 10000u

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void die(const char *what, const struct err *e)
{
	fprintf(stderr, "bench_store: %s: %s\n", what, e->message);
	exit(1);
}

struct bench {
	struct store *s;
	double seconds;
	char payload[512];
	size_t payload_len;
	uint64_t events, decided;
	uint64_t *latency; /* µs */
	size_t nlatency, cap;
};

/* One small document for each process, as the real models have. */
static int fold(struct models *m, const struct event_view *ev, struct err *e)
{
	const struct id_text *id = &ev->ids[ID_PROCESS];
	char doc[200];
	int n = snprintf(doc, sizeof(doc), "{\"processId\":\"%.*s\",\"status\":\"running\",\"sequence\":%llu}",
			 (int)id->len, id->text, (unsigned long long)ev->sequence);

	return models_put(m, 5, id->text, id->len, doc, (size_t)n, e);
}

static void add_event(struct bench *b, struct store_batch *batch)
{
	struct event_draft d = {
		.type = EVENT_PROCESS_INPUT, .uid = 1000, .payload = b->payload, .payload_len = b->payload_len
	};
	struct err e = ERR_INIT;
	char process[40];

	snprintf(process, sizeof(process), "proc_%016llu", (unsigned long long)(b->events / 20));
	d.ids[ID_SESSION] = "sess_01hzzzzzzzzzzzzzzzzzzzzzzz";
	d.ids[ID_THREAD] = "thread_01hzzzzzzzzzzzzzzzzzzzzzzz";
	d.ids[ID_TURN] = "turn_01hzzzzzzzzzzzzzzzzzzzzzzz";
	d.ids[ID_PROCESS] = process;
	if (store_batch_event(batch, &d, &e) != 0)
		die("event", &e);
	b->events++;
}

struct sent {
	struct bench *b;
	uint64_t due;
};

static void decided(void *ctx, const struct store_result *r)
{
	struct sent *x = ctx;
	struct bench *b = x->b;

	if (r->status != 0)
		die("commit", r->err);
	b->decided++;
	if (b->latency && b->nlatency < b->cap)
		b->latency[b->nlatency++] = (now_ns() - x->due) / 1000;
	free(x);
}

static void submit(struct bench *b, unsigned events, uint64_t due)
{
	struct store_batch *batch = store_batch_new(b->s);
	struct sent *x = mem_zalloc(1, sizeof(*x));

	x->b = b;
	x->due = due;
	for (unsigned i = 0; i < events; i++)
		add_event(b, batch);
	store_submit(b->s, batch, 0, decided, x);
}

static void wait_all(struct bench *b)
{
	while (store_queued(b->s)) {
		struct pollfd p = { .fd = store_dispatch_fd(b->s), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(b->s);
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double by(struct bench *b, unsigned events)
{
	uint64_t start = now_ns(), count = 0;

	while (now_ns() - start < (uint64_t)(b->seconds * 1e9)) {
		submit(b, events, now_ns());
		wait_all(b);
		count += events;
	}
	return (double)count * 1e9 / (double)(now_ns() - start);
}

/* The peer: the same number of bytes, appended, one sync for each group. */
static double peer_by(struct bench *b, int fd, unsigned events)
{
	uint64_t start = now_ns(), count = 0;
	mem_auto char *bytes = mem_zalloc(events, 600);

	while (now_ns() - start < (uint64_t)(b->seconds * 1e9)) {
		if (write(fd, bytes, events * 600) < 0 || fdatasync(fd) != 0) {
			perror("bench_store: peer");
			exit(1);
		}
		count += events;
	}
	return (double)count * 1e9 / (double)(now_ns() - start);
}

static void sustained(struct bench *b)
{
	uint64_t start = now_ns(), sent = 0, total = (uint64_t)(b->seconds * 4 * RATE);

	b->cap = total;
	b->latency = mem_zalloc(total, sizeof(*b->latency));
	b->nlatency = 0;
	while (sent < total) {
		uint64_t due = start + sent * (1000000000u / RATE), now = now_ns();

		if (due > now) {
			struct timespec wait = { .tv_nsec = (long)(due - now) };
			struct pollfd p = { .fd = store_dispatch_fd(b->s), .events = POLLIN };

			ppoll(&p, 1, &wait, NULL);
			store_dispatch(b->s);
			continue;
		}
		submit(b, 1, due); /* latency counts from when it should have been sent */
		sent++;
		if (sent % 16 == 0)
			store_dispatch(b->s);
	}
	wait_all(b);
	double seconds = (double)(now_ns() - start) / 1e9;
	qsort(b->latency, b->nlatency, sizeof(*b->latency), by_value);
	printf("sustained, asked for %u/s: %.0f events/s over %.1f s; acknowledged after p50 %llu  p90 %llu  p99 %llu  "
	       "p99.9 %llu  max %llu us\n",
	       RATE, (double)sent / seconds, seconds, (unsigned long long)b->latency[b->nlatency / 2],
	       (unsigned long long)b->latency[b->nlatency * 9 / 10],
	       (unsigned long long)b->latency[b->nlatency * 99 / 100],
	       (unsigned long long)b->latency[b->nlatency * 999 / 1000],
	       (unsigned long long)b->latency[b->nlatency - 1]);
	free(b->latency);
	b->latency = NULL;
}

static void verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	if (e)
		die("verify", e);
	if (!v->ok) {
		fprintf(stderr, "bench_store: verify: %s\n", v->problems[0].what);
		exit(1);
	}
	*(uint64_t *)ctx = v->events;
}

static void verify(struct bench *b)
{
	uint64_t start = now_ns(), events = 0;

	store_verify(b->s, verified, &events);
	while (!events) {
		struct pollfd p = { .fd = store_dispatch_fd(b->s), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(b->s);
	}
	double seconds = (double)(now_ns() - start) / 1e9;
	printf("verify: %llu events in %.2f s (%.0f/s), ok\n", (unsigned long long)events, seconds,
	       (double)events / seconds);
}

static int rm(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

int main(int argc, char **argv)
{
	static const unsigned sizes[] = { 1, 10, 100 };
	struct bench b = { .seconds = argc > 1 ? atof(argv[1]) : 2 };
	char dir[200], store[220], spool[220], file[220];
	struct store_options o = { .dir = store, .spool_dir = spool, .project = fold };
	struct err e = ERR_INIT;
	int fd;

	log_setup("bench", LOG_LEVEL_WARNING, false);
	snprintf(dir, sizeof(dir), "%s/bailiff-bench-XXXXXX", argc > 2 ? argv[2] : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	snprintf(store, sizeof(store), "%s/store", dir);
	snprintf(spool, sizeof(spool), "%s/spool", dir);
	snprintf(file, sizeof(file), "%s/peer", dir);
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || store_open(&o, &b.s, &e) != 0)
		die("open", &e);
	b.payload_len = (size_t)snprintf(
		b.payload, sizeof(b.payload),
		"{\"kind\":\"data\",\"bytes\":120,\"preview\":\"%0120d\",\"encoding\":\"utf8\",\"redacted\":false,"
		"\"by\":{\"uid\":1000,\"pid\":1,\"role\":\"operator\"}}",
		0);
	printf("%-28s %12s %12s %7s\n", "events a commit", "store/s", "append+sync/s", "ratio");
	for (size_t i = 0; i < countof(sizes); i++) {
		/* interleaved: both see the same machine */
		double peer = peer_by(&b, fd, sizes[i]) / 2, ours = by(&b, sizes[i]) / 2;

		ours += by(&b, sizes[i]) / 2;
		peer += peer_by(&b, fd, sizes[i]) / 2;
		printf("%-28u %12.0f %12.0f %7.2f\n", sizes[i], ours, peer, ours / peer);
		fflush(stdout);
	}
	sustained(&b);
	verify(&b);
	store_close(b.s);
	close(fd);
	nftw(dir, rm, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
