#include "supervisor/control/client.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/rpc.h"
#include "supervisor/host/config.h"

#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/*
 * A connection works in turns: process_client sends, reads and runs a bounded number of requests, and sends the
 * replies. A turn begins with an event of the socket, with client_wake (event_active, so never from inside the caller),
 * or in control's turn if the last one stopped at its limits.
 *
 * Because events are edge-triggered, no readiness may be forgotten: `readable` and `writable` stay set until the kernel
 * returns EAGAIN, and every path that stops earlier arranges for another turn (continue_later), or stops because of a
 * condition whose end wakes the client: an answered call, a socket that is writable again, a recorded grant of root's.
 *
 * Freeing: any callback may end the client, so functions check `dead` after each step. The memory is freed when it is
 * dead, no function of this file is on the stack for it (`busy`) and no call refers to it (`ncalls`). Whichever of the
 * three is last frees it: unuse_client or client_call_done.
 */

#define TURN_LINES 64            /* requests of one client in one turn */
#define TURN_READS 4             /* reads of CONTROL_SCRATCH bytes in one turn */
#define PARTIAL_FREE (64u << 10) /* a shorter unfinished line is never rejected for the uid's quota */

static void on_event(evutil_socket_t fd, short what, void *arg);

/* ---- accounts and turns ---- */

/* The list is short: one entry per uid with a connection. An account is freed with its last user. */
struct account *control_account(struct control *k, uint32_t uid)
{
	struct account *a;
	LIST_FOREACH (a, &k->accounts, entry)
		if (a->uid == uid)
			break;
	if (!a) {
		a = mem_zalloc(1, sizeof *a);
		a->uid = uid;
		LIST_INSERT_HEAD(&k->accounts, a, entry);
	}
	a->users++;
	return a;
}

void account_release(struct account *a)
{
	if (--a->users)
		return;
	LIST_REMOVE(a, entry);
	free(a);
}

/* The quota covers the uid as a whole: opening more connections does not raise it. */
bool control_over_quota(const struct control *k, const struct account *a)
{
	return a->queued > k->o.config->max_queued_bytes_per_uid;
}

/* A timer of zero instead of a direct call: the loop polls its sockets before the turn runs. */
void control_turn(struct control *k)
{
	static const struct timeval now = { 0 };
	if (!event_pending(k->turn_ev, EV_TIMEOUT, NULL))
		loop_add(k->turn_ev, &now);
}

/* ---- life ---- */

/*
 * A new connection is an operator's until `initialize` lowers its role. It is reported to the engine, which notes the
 * peer's identity.
 */
struct client *client_new(struct control *k, int fd, const struct peer *peer)
{
	struct client *cl = mem_zalloc(1, sizeof *cl);
	cl->control = k;
	cl->account = control_account(k, peer->uid);
	cl->account->connections++;
	cl->number = ++k->next_connection;
	cl->fd = fd;
	cl->passed = -1;
	cl->peer = *peer;
	cl->role = ROLE_OPERATOR;
	cl->writable = true;
	lines_init(&cl->in, CLIENT_LINE_MAX);
	TAILQ_INIT(&cl->calls);
	LIST_INIT(&cl->subscriptions);
	LIST_INSERT_HEAD(&k->clients, cl, entry);
	k->nclients++;
	event_assign(&cl->ev, k->o.base, fd, EV_READ | EV_ET | EV_PERSIST, on_event, cl);
	/* not persistent: each reply that the client takes from its socket would wake this process */
	event_assign(&cl->write_ev, k->o.base, fd, EV_WRITE | EV_ET, on_event, cl);
	loop_add(&cl->ev, NULL);
	const struct caller came = { .uid = peer->uid, .gid = peer->gid, .pid = peer->pid, .peer_fd = fd };
	engine_client_connected(k->o.engine, &came);
	return cl;
}

static void client_free(struct client *cl)
{
	LIST_REMOVE(cl, entry);
	account_release(cl->account);
	shutdown(cl->fd, SHUT_RDWR); /* close() is not enough: known_peer.h may keep a copy of the descriptor */
	close(cl->fd);
	free(cl);
}

/* The peer has shut down both directions, as opposed to only its sending one. */
static bool hung_up(const struct client *cl)
{
	struct pollfd p = { .fd = cl->fd };
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

/* Sets the number of input bytes that are counted in the account to `held`. */
static void count_input(struct client *cl, size_t held)
{
	cl->account->queued += held;
	cl->account->queued -= cl->in_counted;
	cl->in_counted = held;
}

static void drain_output(struct client *cl, size_t n)
{
	evbuffer_drain(cl->out, n);
	cl->account->queued -= n;
	if (evbuffer_get_length(cl->out))
		return;
	evbuffer_free(cl->out);
	cl->out = NULL;
}

/* ---- the end ---- */

/* Ends a section that client_end must not free the client in: the last of them frees it. */
static void unuse_client(struct client *cl)
{
	cl->busy--;
	if (cl->dead && !cl->busy && !cl->ncalls)
		client_free(cl);
}

/*
 * Idempotent. `busy` keeps the client in memory while `ended` runs, which drops calls and may thereby end other work of
 * this client. Bytes are taken off the account here, not when the client is freed: its calls may take long.
 */
void client_end(struct client *cl)
{
	struct control *k = cl->control;
	if (cl->dead)
		return;
	cl->busy++;
	cl->dead = true;
	event_del(&cl->ev);
	event_del(&cl->write_ev);
	if (cl->again)
		TAILQ_REMOVE(&k->again, cl, turn);
	cl->again = false;
	if (cl->out)
		drain_output(cl, evbuffer_get_length(cl->out));
	fd_close(&cl->passed);
	count_input(cl, 0);
	lines_done(&cl->in);
	shutdown(cl->fd, SHUT_RDWR);
	LIST_REMOVE(cl, entry);
	LIST_INSERT_HEAD(&k->leaving, cl, entry);
	k->nclients--;
	cl->account->connections--;
	k->client_events->ended(cl);
	unuse_client(cl);
}

/* ---- writing ---- */

size_t client_unsent(const struct client *cl) { return cl->out ? evbuffer_get_length(cl->out) : 0; }

void client_wake(struct client *cl)
{
	if (cl->dead || cl->busy || cl->active)
		return; /* process_client on the stack checks again before it returns */
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

int client_pass(struct client *cl, int *fd)
{
	if (cl->dead || cl->passed >= 0)
		return -1;
	cl->passed = fd_take(fd);
	cl->before_passed = client_unsent(cl);
	return 0;
}

void client_call_done(struct client *cl)
{
	if (cl->dead && !cl->busy && !cl->ncalls)
		client_free(cl);
	else
		client_wake(cl);
}

/* Root's replies wait until the spawner has recorded what they authorise (supervisor/host/root_grant.h). */
static bool reply_is_delayed(const struct client *cl)
{
	const struct control *k = cl->control;
	return cl->peer.uid == 0 && k->o.delays_root_reply && k->o.delays_root_reply(k->o.ctx, cl->fd);
}

/* Sends some of `out`, up to the byte that the descriptor goes with, or from that byte on with the descriptor. */
static ssize_t send_some(struct client *cl)
{
	bool attach = cl->passed >= 0 && !cl->before_passed;
	ssize_t most = cl->passed >= 0 && !attach ? (ssize_t)cl->before_passed : -1;
	struct evbuffer_iovec vec[16];
	struct iovec iov[countof(vec)];
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	int n = evbuffer_peek(cl->out, most, NULL, vec, countof(vec));

	if (n > (int)countof(vec))
		n = countof(vec);
	for (int i = 0; i < n; i++) {
		iov[i] = (struct iovec){ .iov_base = vec[i].iov_base, .iov_len = vec[i].iov_len };
		if (most >= 0 && iov[i].iov_len > (size_t)most)
			iov[i].iov_len = (size_t)most;
		most -= most >= 0 ? (ssize_t)iov[i].iov_len : 0;
	}
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = (size_t)n };
	if (attach) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof control.bytes;
		control.header = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
						   .cmsg_level = SOL_SOCKET,
						   .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.header), &cl->passed, sizeof(int));
	}
	ssize_t sent = sendmsg(cl->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent > 0 && attach)
		fd_close(&cl->passed);
	else if (sent > 0 && cl->passed >= 0)
		cl->before_passed -= (size_t)sent;
	return sent;
}

/* Sends until the socket is full; the next EV_WRITE continues. A kernel that is short of memory counts as full.
 */
static void flush_output(struct client *cl)
{
	while (cl->out && cl->writable && !reply_is_delayed(cl)) {
		ssize_t sent = send_some(cl);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
			cl->writable = false;
			loop_add(&cl->write_ev, NULL);
			return;
		}
		if (sent < 0) {
			client_end(cl);
			return;
		}
		cl->control->counts.bytes_out += (uint64_t)sent;
		drain_output(cl, (size_t)sent);
	}
}

/* ---- reading ---- */

/* With hysteresis: reading pauses at CLIENT_OUT_HIGH unsent bytes and resumes below CLIENT_OUT_LOW. */
static bool is_paused(struct client *cl)
{
	size_t unsent = client_unsent(cl);
	cl->paused = cl->ncalls >= CLIENT_CALLS_MAX || unsent >= CLIENT_OUT_HIGH || cl->passed >= 0 ||
		     (cl->paused && unsent >= CLIENT_OUT_LOW);
	return cl->paused;
}

/* Reads from the socket once; false if there is nothing more for now. */
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

/* The connection stays usable: `lines` has skipped the line, and the next one is read normally. */
static void refuse_line(struct client *cl, const char *message)
{
	struct buf buf_auto out = BUF_INIT;
	cl->control->counts.protocol_errors++;
	mem_auto char *text = mem_printf("%s: send less in one request; write_process_stdin and emit_events can be "
					 "repeated",
					 message);
	rpc_protocol_error(&out, NULL, RPC_INVALID_REQUEST, text);
	buf_byte(&out, '\n');
	client_send(cl, out.data, out.len);
}

/*
 * An unfinished line counts against its uid's quota; beyond it the rest of the line is skipped. Otherwise a user could
 * make the runtime buffer 16 MiB for each of its connections without ever sending a complete request.
 */
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

/* True if there was a line. */
static bool handle_line(struct client *cl)
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

/* Continues in control's next turn, after the other connections. */
static void continue_later(struct client *cl)
{
	if (!cl->again)
		TAILQ_INSERT_TAIL(&cl->control->again, cl, turn);
	cl->again = true;
	control_turn(cl->control);
}

/*
 * A bounded number of reads and requests per turn, so that one client with a full socket cannot starve the others.
 * Lines that are buffered already are handled before more is read.
 */
static void read_requests(struct client *cl)
{
	int reads = TURN_READS, requests = TURN_LINES;
	while (!cl->dead && !is_paused(cl)) {
		if (requests == 0) {
			continue_later(cl);
			break;
		}
		if (handle_line(cl)) {
			requests--;
			continue;
		}
		if (cl->dead)
			break;
		check_partial(cl);
		if (!cl->readable || cl->eof)
			break;
		if (reads-- == 0) {
			continue_later(cl);
			break;
		}
		if (!read_some(cl))
			break;
	}
	if (!cl->dead)
		count_input(cl, lines_buffered(&cl->in));
}

/* ---- turns ---- */

/* The peer shut down its sending side and nothing remains to be done or sent. */
static bool is_finished(struct client *cl)
{
	return cl->eof && !cl->ncalls && !cl->out && LIST_EMPTY(&cl->subscriptions) && !cl->again &&
	       !lines_buffered(&cl->in);
}

/* One turn of a client: send, read and run requests, send their replies. Each step may end the client. */
static void process_client(struct client *cl)
{
	flush_output(cl);
	if (!cl->dead)
		read_requests(cl);
	if (!cl->dead)
		flush_output(cl);
	if (cl->dead)
		return;
	if (is_finished(cl) || (cl->eof && !cl->again && hung_up(cl))) {
		client_end(cl);
		return;
	}
	if (cl->paused && !is_paused(cl))
		continue_later(cl); /* edge-triggered: the socket took everything, so no event will follow */
	if (client_unsent(cl) < CLIENT_OUT_LOW)
		cl->control->client_events->drained(cl);
}

/* Edge-triggered: readiness is remembered in the client until a read or write returns EAGAIN. */
static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct client *cl = arg;
	cl->active = false;
	cl->readable |= (what & EV_READ) != 0;
	cl->writable |= (what & EV_WRITE) != 0;
	cl->busy++;
	/* While reading is paused, end of file goes unnoticed: check for a hangup. */
	if ((what & (EV_READ | EV_WRITE)) && cl->paused && hung_up(cl))
		client_end(cl);
	else
		process_client(cl);
	unuse_client(cl);
}

void client_turn(struct client *cl)
{
	cl->busy++;
	process_client(cl);
	unuse_client(cl);
}
