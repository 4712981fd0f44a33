#include "supervisor/host/audit_reader.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/ports.h"
#include "runtime/loop/loop.h"
#include "sandbox/audit.h"
#include "sandbox/violation.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/process_io.h"

#include <event2/event.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/*
 * A mark is a 62-bit token: the upper part is random for each runtime, the lower part counts. Tokens only grow, and the
 * queue keeps its order, so a mark also stands for all earlier ones. That is why one number for each process and one
 * retry timer are enough: only the newest mark is requested again, and it completes every process that waits for a
 * smaller one.
 *
 * A mark can be lost like any other record: on the way to the spawner, with the spawner, or because the kernel's
 * backlog was full. It is requested until it arrives. The end of a process is not recorded before that, which is safe
 * because the engine has its own deadline for reports that are due.
 */

#define RECORDS_AT_ONCE 32
#define RECORD_MAX 9000 /* longest that the kernel writes */
#define TURNS 8         /* batches of records before the loop serves others */
#define ASK_AGAIN_MS 50
#define MARK_LOST_MS 500 /* a mark that has not arrived by then, with nothing left to read, was dropped */
#define MARK_COUNTER_BITS 32

/* Without a descriptor every other function does nothing, so callers need not check whether audit is on. */
void audit_reader_init(struct audit_reader *a, struct host_ports *w, int fd)
{
	*a = (struct audit_reader){ .host = w, .fd = fd };
	if (fd < 0)
		return;
	fd_cloexec(fd, true);
	fd_nonblock(fd, true);
	a->builder = violation_builder_new();
	violation_builder_set_resolver(a->builder, dirfd_path_is);
	a->congestions = audit_congestions(fd);
	a->records = mem_alloc(RECORDS_AT_ONCE * RECORD_MAX);
	/* Marks of an earlier runtime and of other daemons arrive too: the upper half identifies this one. */
	uint32_t whose = 0;
	if (getrandom(&whose, sizeof whose, GRND_NONBLOCK) != (ssize_t)sizeof whose)
		whose = (uint32_t)clock_boot_ns();
	a->seen = (uint64_t)(whose >> 2) << MARK_COUNTER_BITS; /* two bits less: marks are parsed with 19 digits */
	a->requested = a->seen + 1; /* the first mark reports how many records the kernel dropped before */
}

void audit_reader_done(struct audit_reader *a)
{
	if (a->ev)
		event_free(a->ev);
	if (a->retry)
		event_free(a->retry);
	a->ev = a->retry = NULL;
	violation_builder_free(a->builder);
	free(a->records);
	strmap_done(&a->sessions);
}

/* ---- sessions ---- */

static void session_text(uint32_t session, char out[16]) { snprintf(out, 16, "%u", session); }

/* The key in the map of sessions: the session, or, of a member, its own id. */
static void key_of(const struct process_io *h, char out[PLAN_KEY_MAX])
{
	if (h->within[0])
		memcpy(out, h->key.id, PLAN_KEY_MAX);
	else
		session_text(h->audit_session, out);
}

/* A session number may be reused: the latest process with it wins. */
void audit_reader_add(struct audit_reader *a, struct process_io *h, uint32_t session)
{
	char key[16];

	if (a->fd < 0)
		return;
	if (session == AUDIT_NO_SESSION) {
		if (!a->warned)
			engine_warn(a->host->engine, "violations_unavailable",
				    "look for audit features that lock login uids (auditctl -s)",
				    "%s has no audit session: denials by its sandbox cannot be reported", h->key.id);
		a->warned = true;
		return;
	}
	audit_reader_remove(a, h);
	h->audit_session = session;
	h->audited = true;
	session_text(session, key);
	strmap_put(&a->sessions, key, h);
}

void audit_reader_add_member(struct audit_reader *a, struct process_io *h)
{
	if (a->fd < 0)
		return;
	h->audited = true;
	strmap_put(&a->sessions, h->key.id, h);
}

void audit_reader_remove(struct audit_reader *a, struct process_io *h)
{
	char key[PLAN_KEY_MAX];

	if (!h->audited)
		return;
	h->audited = false;
	key_of(h, key);
	if (strmap_get(&a->sessions, key) == h)
		strmap_del(&a->sessions, key);
}

/* ---- dropped records ---- */

static void missed_some(void *ctx, const char *session, void *value)
{
	const struct audit_reader *a = ctx;
	const struct plan_key of = ((const struct process_io *)value)->key;

	engine_on_violations_missed(a->host->engine, of.id);
}

static void report_missed(struct audit_reader *a, const char *why)
{
	strmap_visit(&a->sessions, missed_some, a);
	if (a->missed++ % 1000 == 0) /* log only one in a thousand */
		engine_warn(a->host->engine, "violations_lost", "the counts of sandbox.violation may be too low", "%s",
			    why);
}

/*
 * The kernel dropped records because its backlog was full or a rate limit was reached. They may belong to any task of
 * the host, so every running process counts as affected. The first value is only a base line.
 */
static void note_lost(struct audit_reader *a, uint32_t lost)
{
	bool first = !a->lost_known;

	if (!first && lost != a->lost)
		report_missed(a, "the kernel lost audit records: its backlog or rate limit is too small (auditctl -s)");
	a->lost = lost;
	a->lost_known = true;
}

/* ---- marks ---- */

/* Repeated by the timer until the mark arrives: both the request and the mark can be lost. */
static void request_mark(struct audit_reader *a)
{
	const struct timeval soon = { .tv_usec = ASK_AGAIN_MS * 1000 }, later = { .tv_usec = MARK_LOST_MS * 1000 };
	bool sent = spawn_link_mark(&a->host->spawner, a->requested);

	if (a->retry)
		loop_add(a->retry, sent ? &later : &soon);
}

static void on_retry(evutil_socket_t fd, short what, void *ctx) { audit_reader_retry_mark(ctx); }

void audit_reader_retry_mark(struct audit_reader *a)
{
	if (a->fd >= 0 && a->seen < a->requested)
		request_mark(a);
}

bool audit_reader_drain(struct audit_reader *a, struct process_io *h)
{
	if (!h->audited)
		return false;
	h->audit_mark = ++a->requested;
	request_mark(a);
	return true;
}

struct settled {
	char (*ids)[PLAN_KEY_MAX];
	size_t count;
	uint64_t token;
};

static void collect_settled(void *ctx, const char *session, void *value)
{
	struct settled *s = ctx;
	struct process_io *h = value;

	if (!h->audit_mark || h->audit_mark > s->token)
		return;
	h->audit_mark = 0;
	memcpy(s->ids[s->count++], h->key.id, PLAN_KEY_MAX);
}

/* `drained` may end a process and change the map, so the ids are collected first. */
static void on_mark(struct audit_reader *a, const struct violation_mark *mark)
{
	struct settled s = { .token = mark->token };

	if (mark->token > a->requested || mark->token <= a->seen)
		return;
	note_lost(a, mark->lost);
	a->seen = mark->token;
	s.ids = mem_zalloc(a->sessions.count + 1, sizeof *s.ids);
	strmap_each(&a->sessions, collect_settled, &s);
	for (size_t i = 0; i < s.count; i++)
		a->host->drained(a->host, s.ids[i]);
	free(s.ids);
}

/* ---- records ---- */

/* The key is copied: the report may end the process and free its process_io. */
static void on_denial(struct audit_reader *a, const struct violation *v)
{
	char key[16];

	session_text(v->session, key);
	struct process_io *h = strmap_get(&a->sessions, key);
	if (h) {
		const struct plan_key of = process_io_blamed(h, v->pid, v->parent)->key;

		engine_on_violation(a->host->engine, of.id, v);
	}
}

/* Several records make one denial; the builder returns it with the last of them. */
static void take_record(struct audit_reader *a, const char *bytes, size_t n)
{
	const struct violation *v = NULL;
	struct nlmsghdr head;
	struct violation_mark mark = { 0 };

	if (n < sizeof head)
		return;
	memcpy(&head, bytes, sizeof head);
	switch (violation_builder_take(a->builder, head.nlmsg_type, bytes + sizeof head, n - sizeof head, &v, &mark)) {
	case VIOLATION_READY: on_denial(a, v); break;
	case VIOLATION_MARK: on_mark(a, &mark); break;
	case VIOLATION_NOTHING: break;
	}
}

/* The socket's own drop counter: its receive buffer was full. */
static void check_congestion(struct audit_reader *a)
{
	uint32_t now = audit_congestions(a->fd);

	if (now == a->congestions)
		return;
	a->congestions = now;
	report_missed(a, "the receive buffer for audit records was full");
}

/* Reads in batches: a denied loop in a sandbox produces thousands of records per second. */
static void on_records(evutil_socket_t fd, short what, void *ctx)
{
	struct audit_reader *a = ctx;
	struct mmsghdr m[RECORDS_AT_ONCE];
	struct iovec v[RECORDS_AT_ONCE];

	check_congestion(a); /* before a mark among these records completes a process */
	for (int turn = 0; turn < TURNS; turn++) {
		for (size_t i = 0; i < RECORDS_AT_ONCE; i++) {
			v[i] = (struct iovec){ .iov_base = a->records + i * RECORD_MAX, .iov_len = RECORD_MAX };
			m[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &v[i], .msg_iovlen = 1 } };
		}
		int n = recvmmsg(a->fd, m, RECORDS_AT_ONCE, MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			take_record(a, v[i].iov_base, m[i].msg_len < RECORD_MAX ? m[i].msg_len : RECORD_MAX);
		if (n < RECORDS_AT_ONCE)
			return;
	}
}

void audit_reader_listen(struct audit_reader *a, struct event_base *base)
{
	if (a->fd < 0)
		return;
	a->ev = event_new(base, a->fd, EV_READ | EV_PERSIST, on_records, a);
	a->retry = evtimer_new(base, on_retry, a);
	loop_add(a->ev, NULL);
	audit_reader_retry_mark(a);
}
