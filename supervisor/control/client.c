#include "supervisor/control/client.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/rpc.h"

#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TURN_LINES 64            /* requests of one client in one turn */
#define TURN_READS 4             /* reads of CONTROL_SCRATCH bytes likewise */
#define PARTIAL_FREE (64u << 10) /* an unfinished line this short is never refused for the uid's quota */

static void on_event(evutil_socket_t fd, short what, void *arg);

struct client *client_new(struct control *k, int fd, const struct peer *peer)
{
	struct client *cl = mem_zalloc(1, sizeof *cl);
	cl->control = k;
	cl->account = control_account(k, peer->uid);
	cl->account->connections++;
	cl->number = ++k->next_connection;
	cl->fd = fd;
	cl->peer = *peer;
	cl->role = ROLE_OPERATOR;
	cl->writable = true;
	lines_init(&cl->in, CLIENT_LINE_MAX);
	TAILQ_INIT(&cl->calls);
	LIST_INIT(&cl->subscriptions);
	LIST_INSERT_HEAD(&k->clients, cl, entry);
	k->nclients++;
	event_assign(&cl->ev, k->o.base, fd, EV_READ | EV_WRITE | EV_ET | EV_PERSIST, on_event, cl);
	loop_add(&cl->ev, NULL);
	const struct caller came = { .uid = peer->uid, .gid = peer->gid, .pid = peer->pid, .peer_fd = fd };
	engine_client_connected(k->o.engine, &came);
	return cl;
}

static void client_free(struct client *cl)
{
	LIST_REMOVE(cl, entry);
	account_release(cl->control, cl->account);
	shutdown(cl->fd, SHUT_RDWR); /* a copy of the descriptor may be kept, as a proof of who it was */
	close(cl->fd);
	free(cl);
}

/* The peer has shut down both directions, as opposed to only its sending one. */
static bool hung_up(const struct client *cl)
{
	struct pollfd p = { .fd = cl->fd };
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void count_input(struct client *cl, size_t held)
{
	cl->account->queued += held;
	cl->account->queued -= cl->in_counted;
	cl->in_counted = held;
}

static void drain(struct client *cl, size_t n)
{
	evbuffer_drain(cl->out, n);
	cl->account->queued -= n;
	if (evbuffer_get_length(cl->out))
		return;
	evbuffer_free(cl->out);
	cl->out = NULL;
}

/* ---- the end ---- */

static void leave(struct client *cl)
{
	cl->busy--;
	if (cl->dead && !cl->busy && !cl->ncalls)
		client_free(cl);
}

void client_end(struct client *cl)
{
	struct control *k = cl->control;
	if (cl->dead)
		return;
	cl->busy++;
	cl->dead = true;
	event_del(&cl->ev);
	if (cl->again)
		TAILQ_REMOVE(&k->again, cl, turn);
	cl->again = false;
	if (cl->out)
		drain(cl, evbuffer_get_length(cl->out));
	count_input(cl, 0);
	lines_done(&cl->in);
	shutdown(cl->fd, SHUT_RDWR);
	LIST_REMOVE(cl, entry);
	LIST_INSERT_HEAD(&k->leaving, cl, entry);
	k->nclients--;
	cl->account->connections--;
	k->client_events->ended(cl);
	leave(cl);
}

/* ---- writing ---- */

size_t client_unsent(const struct client *cl) { return cl->out ? evbuffer_get_length(cl->out) : 0; }

void client_wake(struct client *cl)
{
	if (cl->dead || cl->busy || cl->active)
		return; /* who is busy with it looks again before leaving */
	cl->active = true;
	event_active(&cl->ev, EV_TIMEOUT, 0);
}

void client_send(struct client *cl, const void *p, size_t n)
{
	if (cl->dead)
		return;
	if (!cl->out && !(cl->out = evbuffer_new()))
		abort();
	if (evbuffer_add(cl->out, p, n) < 0)
		abort();
	cl->account->queued += n;
	client_wake(cl);
}

void client_call_done(struct client *cl)
{
	if (cl->dead && !cl->busy && !cl->ncalls)
		client_free(cl);
	else
		client_wake(cl);
}

static bool is_held_back(const struct client *cl)
{
	const struct control *k = cl->control;
	return cl->peer.uid == 0 && k->o.holds_root_back && k->o.holds_root_back(k->o.ctx, cl->fd);
}

static void flush(struct client *cl)
{
	while (cl->out && cl->writable && !is_held_back(cl)) {
		struct evbuffer_iovec vec[16];
		int n = evbuffer_peek(cl->out, -1, NULL, vec, countof(vec));
		if (n > (int)countof(vec))
			n = countof(vec);
		struct iovec iov[countof(vec)];
		for (int i = 0; i < n; i++)
			iov[i] = (struct iovec){ .iov_base = vec[i].iov_base, .iov_len = vec[i].iov_len };
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)n };
		ssize_t sent = sendmsg(cl->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
			cl->writable = false;
			return;
		}
		if (sent < 0) {
			client_end(cl);
			return;
		}
		cl->control->counts.bytes_out += (uint64_t)sent;
		drain(cl, (size_t)sent);
	}
}

/* ---- reading ---- */

static bool is_paused(struct client *cl)
{
	size_t unsent = client_unsent(cl);
	cl->paused = cl->ncalls >= CLIENT_CALLS_MAX || unsent >= CLIENT_OUT_HIGH ||
		     (cl->paused && unsent >= CLIENT_OUT_LOW);
	return cl->paused;
}

/* Takes what the socket has, once; false if there is nothing more for now. */
static bool read_some(struct client *cl)
{
	struct control *k = cl->control;
	ssize_t n = read(cl->fd, k->scratch, CONTROL_SCRATCH);
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0) {
		cl->readable = false;
		if (errno != EAGAIN)
			client_end(cl);
		return false;
	}
	if (n == 0)
		cl->eof = true;
	k->counts.bytes_in += (uint64_t)n;
	lines_add(&cl->in, k->scratch, (size_t)n);
	return true;
}

static void refuse_line(struct client *cl, const char *message)
{
	struct buf buf_auto out = BUF_INIT;
	cl->control->counts.protocol_errors++;
	rpc_protocol_error(&out, NULL, RPC_INVALID_REQUEST, message,
			   "Send less in one request; write_process_stdin and emit_events can be repeated.");
	buf_byte(&out, '\n');
	client_send(cl, out.data, out.len);
}

/* An unfinished line counts against its uid's queue; past the quota it is given up rather than waited for. */
static void check_partial(struct client *cl)
{
	count_input(cl, lines_buffered(&cl->in));
	if (cl->in_counted <= PARTIAL_FREE || !control_over_quota(cl->control, cl->account))
		return;
	lines_skip(&cl->in);
	count_input(cl, 0);
	struct err e = ERR_INIT;
	err_set(&e, ERR_EXHAUSTED,
		"the connections of uid %u hold more queued bytes than maxQueuedBytesPerUid; this line was not read to "
		"its end",
		cl->peer.uid);
	struct buf buf_auto out = BUF_INIT;
	rpc_error(&out, NULL, &e, NULL, 0);
	buf_byte(&out, '\n');
	client_send(cl, out.data, out.len);
}

/* True if a line was there. */
static bool one_line(struct client *cl)
{
	const char *line;
	size_t len;
	switch (cl->eof ? lines_rest(&cl->in, &line, &len) : lines_next(&cl->in, &line, &len)) {
	case LINES_LINE: cl->control->client_events->line(cl, line, len); return true;
	case LINES_TOO_LONG: refuse_line(cl, "line longer than 16 MiB"); return true;
	case LINES_NONE: break;
	}
	return false;
}

/* Goes on in control's next turn, after everybody else had theirs. */
static void go_on(struct client *cl)
{
	if (!cl->again)
		TAILQ_INSERT_TAIL(&cl->control->again, cl, turn);
	cl->again = true;
	control_turn(cl->control);
}

static void read_requests(struct client *cl)
{
	int reads = TURN_READS, requests = TURN_LINES;
	while (!cl->dead && !is_paused(cl)) {
		if (requests == 0) {
			go_on(cl);
			break;
		}
		if (one_line(cl)) {
			requests--;
			continue;
		}
		if (cl->dead)
			break;
		check_partial(cl);
		if (!cl->readable || cl->eof)
			break;
		if (reads-- == 0) {
			go_on(cl);
			break;
		}
		if (!read_some(cl))
			break;
	}
	if (!cl->dead)
		count_input(cl, lines_buffered(&cl->in));
}

/* ---- turns ---- */

static bool is_finished(struct client *cl)
{
	return cl->eof && !cl->ncalls && !cl->out && LIST_EMPTY(&cl->subscriptions) && !cl->again &&
	       !lines_buffered(&cl->in);
}

static void work(struct client *cl)
{
	flush(cl);
	if (!cl->dead)
		read_requests(cl);
	if (!cl->dead)
		flush(cl);
	if (cl->dead)
		return;
	if (is_finished(cl) || (cl->eof && !cl->again && hung_up(cl))) {
		client_end(cl);
		return;
	}
	if (cl->paused && !is_paused(cl))
		go_on(cl); /* the socket took it all: no edge will come */
	if (client_unsent(cl) < CLIENT_OUT_LOW)
		cl->control->client_events->drained(cl);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct client *cl = arg;
	cl->active = false;
	cl->readable |= (what & EV_READ) != 0;
	cl->writable |= (what & EV_WRITE) != 0;
	cl->busy++;
	/* While requests are not read, the end of file is not seen either. */
	if ((what & (EV_READ | EV_WRITE)) && cl->paused && hung_up(cl))
		client_end(cl);
	else
		work(cl);
	leave(cl);
}

void client_turn(struct client *cl)
{
	cl->busy++;
	work(cl);
	leave(cl);
}
