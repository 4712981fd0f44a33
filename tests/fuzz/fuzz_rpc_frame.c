/*
 * Any bytes on a connection, in pieces of any size, through framing, dispatch and the handlers that an agent may call,
 * on an empty store and a fake engine. Replies are complete lines of JSON, and the connection ends when it should.
 */

#include "runtime/base/buf.h"
#include "runtime/store/store.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/config.h"
#include "supervisor/host/retention.h"
#include "tests/unit/supervisor/control/fake_engine.h"

#include <ftw.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PIECES_MAX 32
#define ROUNDS_MAX 64
#define LONG_REPLY 4096
#define QUIET_ROUNDS 4 /* in which nothing comes and nothing waits: only a subscription is left */

static struct event_base *base;
static struct control *control;
static struct store *store;
static struct retention_queue retention;
static struct config config;

static char dir[64] = "/dev/shm/bailiff-fuzz-XXXXXX";

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) { return remove(path); }

static void tear_down(void)
{
	control_free(control);
	store_close(store);
	event_base_free(base);
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void set_up(void)
{
	char db[80], spool[80];
	struct err e = ERR_INIT;
	if (!mkdtemp(dir)) {
		snprintf(dir, sizeof dir, "/tmp/bailiff-fuzz-XXXXXX");
		if (!mkdtemp(dir))
			abort();
	}
	snprintf(db, sizeof db, "%s/store", dir);
	snprintf(spool, sizeof spool, "%s/spool", dir);
	mkdir(db, 0700);
	mkdir(spool, 0700);
	struct store_options so = { .dir = db, .spool_dir = spool, .map_bytes = 64u << 20 };
	if (store_open(&so, &store, &e) < 0)
		abort();
	base = event_base_new();
	config_defaults(&config);
	struct control_options o = { .base = base,
				     .store = store,
				     .engine = (struct engine *)&fake,
				     .methods = &control_methods,
				     .retention = &retention,
				     .config = &config,
				     .listen_fd = -1 };
	control = control_new(&o);
	atexit(tear_down);
}

static void turn_round(int fd, struct buf *out)
{
	static char piece[65536];
	ssize_t n;
	event_base_loop(base, EVLOOP_NONBLOCK);
	store_dispatch(store);
	do {
		n = read(fd, piece, sizeof piece);
		if (n > 0)
			buf_append(out, piece, (size_t)n);
	} while (n == sizeof piece);
}

static void check_json(const char *p, size_t n)
{
	json_auto_t *line = json_loadb(p, n, JSON_ALLOW_NUL, NULL);
	if (!line)
		abort();
}

/* The result of list_methods is the same each time: parsing it again took half of the time. */
static void check_line(const char *line, size_t n)
{
	static struct buf known; /* the last long result that was parsed, to the end of its line */
	static const char result[] = "\"result\":";
	const char *at = n > LONG_REPLY && line[0] == '{' ? memmem(line, n, result, sizeof result - 1) : NULL;
	size_t left = at ? n - (size_t)(at - line) : 0;

	if (at && left == known.len && memcmp(at, known.data, left) == 0) {
		buf_auto struct buf rest = BUF_INIT;
		buf_append(&rest, line, (size_t)(at - line));
		buf_str(&rest, "\"result\":null}");
		check_json(rest.data, rest.len);
		return;
	}
	check_json(line, n);
	if (at) {
		known.len = 0;
		buf_append(&known, at, left);
	}
}

static void check_replies(const struct buf *out)
{
	for (size_t at = 0; at < out->len;) {
		const char *newline = memchr(out->data + at, '\n', out->len - at);
		if (!newline)
			abort();
		size_t n = (size_t)(newline - out->data) - at;
		check_line(out->data + at, n);
		at += n + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fds[2];
	struct peer peer = { .uid = (uint32_t)geteuid(), .gid = (uint32_t)getegid(), .pid = (int32_t)getpid() };
	struct buf buf_auto out = BUF_INIT;
	if (!control)
		set_up();
	if (size < 1)
		return 0;
	/* Bytewise only if the input is short: each piece costs some system calls. */
	size_t piece = data[0] ? (size_t)data[0] * 16 : size / PIECES_MAX + 1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
		abort();
	control_adopt(control, fds[1], &peer)->role = ROLE_AGENT;
	for (size_t at = 1; at < size;) {
		size_t n = size - at < piece ? size - at : piece;
		ssize_t sent = send(fds[0], data + at, n, MSG_NOSIGNAL);
		if (sent > 0)
			at += (size_t)sent;
		turn_round(fds[0], &out);
	}
	shutdown(fds[0], SHUT_WR);
	/* Subscriptions outlive the half-close; everything else is answered and the connection ends. */
	for (int i = 0, quiet = 0; i < ROUNDS_MAX && quiet < QUIET_ROUNDS && control->nclients; i++) {
		size_t before = out.len;
		store_flush(store);
		turn_round(fds[0], &out);
		quiet = out.len == before && !store_queued(store) ? quiet + 1 : 0;
	}
	check_replies(&out);
	close(fds[0]);
	for (int i = 0; control->nclients; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		if (i > 1000)
			abort();
	}
	if (!LIST_EMPTY(&control->leaving) || !LIST_EMPTY(&control->accounts))
		abort();
	return 0;
}
