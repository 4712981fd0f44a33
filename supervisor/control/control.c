#include "supervisor/control/control.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/event_listing.h"
#include "supervisor/control/peer.h"
#include "supervisor/control/request.h"
#include "supervisor/control/rpc.h"
#include "supervisor/control/subscription.h"
#include "supervisor/host/config.h"
#include "supervisor/host/screens.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * The listener and the turns.
 *
 * Everything on the loop works in bounded pieces: a connection's event reads and runs a few requests; the rest, and the
 * sending of events, happens in control's turns, one per iteration of the loop (a timer of zero, so that sockets,
 * commits and signals are handled in between).
 *
 * Without free descriptors accept() fails and the listener stays readable: a loop that just retries would spin. One
 * spare descriptor is kept; closing it for a moment admits a connection, which gets an error reply before it is closed.
 * If even that fails, the listener pauses for ACCEPT_REST. Connections cannot take the last RESERVED_FDS: those that
 * exist need them to read outputs and to start commands. The lowest free number is given out first, so a number near
 * the limit shows that few are left.
 */

#define ACCEPT_BURST 16
#define RESERVED_FDS 128
static const struct timeval ACCEPT_REST = { .tv_usec = 100 * 1000 };

/* ---- turns ---- */

/* One iteration's share of everything that was postponed: clients with more requests, a listing, subscriptions. */
static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct control *k = arg;
	struct client *cl;
	unsigned n = 0;
	/* Only the clients that were queued when the turn began; those added meanwhile wait for the next one. */
	TAILQ_FOREACH (cl, &k->again, turn)
		n++;
	while (n-- && (cl = TAILQ_FIRST(&k->again))) {
		TAILQ_REMOVE(&k->again, cl, turn);
		cl->again = false;
		client_turn(cl);
	}
	event_listing_turn(k);
	if (subscription_turn(k) || !TAILQ_EMPTY(&k->again) || !TAILQ_EMPTY(&k->listings))
		control_turn(k);
}

static void on_commit(void *ctx, uint64_t last_sequence)
{
	struct control *k = ctx;

	event_metrics_committed(&k->tally, last_sequence);
	subscription_committed(k);
}

/* ---- accepting ---- */

/* One line with the reason, on a socket that is closed next. */
static void reject_connection(struct control *k, int fd, const struct err *e)
{
	struct buf buf_auto out = BUF_INIT;
	rpc_error(&out, NULL, e, NULL, 0);
	buf_byte(&out, '\n');
	if (send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("send the reason to a rejected connection: %s", strerror(errno));
	k->counts.refused++;
}

struct client *control_adopt(struct control *k, int fd, const struct peer *peer)
{
	k->counts.accepted++;
	return client_new(k, fd, peer);
}

/* Identity, sandbox and connection limit. The account is taken only for the check; client_new takes it again. */
static int check_peer(struct control *k, int fd, struct peer *ret, struct err *e)
{
	if (peer_read(fd, ret, e) < 0)
		return -1;
	if (peer_check(fd, ret, e) < 0)
		return -1;
	struct account *a = control_account(k, ret->uid);
	bool full = a->connections >= k->o.config->max_connections_per_uid;
	account_release(a);
	if (full)
		return err_set(e, ERR_EXHAUSTED, "uid %u already has %llu connections (maxConnectionsPerUid)", ret->uid,
			       (unsigned long long)k->o.config->max_connections_per_uid);
	return 0;
}

/* A rejected peer gets one error line instead of a silent close. */
static void accept_client(struct control *k, int fd)
{
	struct err e = ERR_INIT;
	struct peer peer;
	bool scarce = fd >= k->max_fd;
	if (scarce && !k->exhausted)
		log_warning("rejecting connections: descriptors up to %d are in use", k->max_fd);
	k->exhausted = scarce;
	if (scarce)
		err_set(&e, ERR_EXHAUSTED, "the daemon has too few file descriptors left for another connection");
	else if (check_peer(k, fd, &peer, &e) == 0) {
		control_adopt(k, fd, &peer);
		return;
	}
	if (!scarce)
		log_info("rejected a connection: %s", e.message);
	reject_connection(k, fd, &e);
	close(fd);
}

static void pause_listener(struct control *k)
{
	event_del(k->accept_ev);
	loop_add(k->accept_again_ev, &ACCEPT_REST);
}

/* No descriptors left: accepts one connection with the spare one, to reject it. */
static void accept_exhausted(struct control *k, int why)
{
	if (!k->exhausted)
		log_warning("cannot accept connections: %s", strerror(why));
	k->exhausted = true; /* log once, until a connection is accepted again */
	if (k->spare_fd < 0) {
		pause_listener(k);
		return;
	}
	fd_close(&k->spare_fd);
	int fd = accept4(k->o.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		struct err e = ERR_INIT;
		err_set(&e, ERR_EXHAUSTED, "the daemon has no file descriptors left");
		reject_connection(k, fd, &e);
		close(fd);
	}
	k->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || k->spare_fd < 0)
		pause_listener(k);
}

/* At most ACCEPT_BURST per event, so that a flood of connections does not delay those that exist. */
static void on_accept(evutil_socket_t listen_fd, short what, void *arg)
{
	struct control *k = arg;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			accept_client(k, fd);
			continue;
		}
		switch (errno) {
		case EAGAIN: return;
		case EINTR:
		case ECONNABORTED: continue;
		case EMFILE:
		case ENFILE: accept_exhausted(k, errno); return;
		default:
			log_warning("accept: %s", strerror(errno));
			pause_listener(k);
			return;
		}
	}
}

static void on_accept_again(evutil_socket_t fd, short what, void *arg)
{
	struct control *k = arg;
	if (k->spare_fd < 0)
		k->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (k->accepting)
		loop_add(k->accept_ev, NULL);
}

/* ---- events of connections ---- */

static void ignore_reply(void *ctx, const struct err *e, const char *json, size_t len) {}

/* The remaining displays call for another size than the one that ended. */
static void resize_terminal(void *ctx, const char *process_id, const struct caller *c, struct attachment_size size)
{
	struct control *k = ctx;

	engine_resize_process(k->o.engine, process_id, size.rows, size.cols, c, ignore_reply, NULL);
}

static void on_client_ended(struct client *cl)
{
	struct control *k = cl->control;

	while (!LIST_EMPTY(&cl->subscriptions))
		subscription_free(LIST_FIRST(&cl->subscriptions));
	call_drop_client(cl);
	if (k->o.engine) {
		engine_client_disconnected(k->o.engine, cl->number); /* answers calls that wait for a process */
		attachment_gone(&k->attachments, cl->number, resize_terminal, k);
	}
	if (k->o.screens)
		screens_client_disconnected(k->o.screens, cl->number);
}

static const struct client_events client_events = {
	.line = request_line,
	.drained = subscription_drained,
	.ended = on_client_ended,
};

/* ---- life ---- */

/* The first descriptor that no connection may have. */
static int connection_limit(void)
{
	int all = fd_raise_nofile();

	return all < 0 ? INT_MAX : all - (all / 4 < RESERVED_FDS ? all / 4 : RESERVED_FDS);
}

struct control *control_new(const struct control_options *o)
{
	struct control *k = mem_zalloc(1, sizeof *k);
	k->o = *o;
	k->owner_uid = (uint32_t)geteuid();
	k->started_boot_ns = clock_boot_ns();
	LIST_INIT(&k->accounts);
	LIST_INIT(&k->clients);
	LIST_INIT(&k->leaving);
	LIST_INIT(&k->subscriptions);
	TAILQ_INIT(&k->again);
	attachments_init(&k->attachments);
	TAILQ_INIT(&k->ready);
	TAILQ_INIT(&k->listings);
	k->client_events = &client_events;
	k->methods = mem_zalloc(o->methods->count, sizeof *k->methods);
	k->scratch = mem_alloc(CONTROL_SCRATCH);
	k->max_fd = connection_limit();
	k->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	k->turn_ev = evtimer_new(o->base, on_turn, k);
	k->accept_again_ev = evtimer_new(o->base, on_accept_again, k);
	if (o->listen_fd >= 0) {
		k->accept_ev = event_new(o->base, o->listen_fd, EV_READ | EV_PERSIST, on_accept, k);
		loop_add(k->accept_ev, NULL);
		k->accepting = true;
	}
	event_metrics_init(&k->tally, o->store);
	store_listen(o->store, on_commit, k);
	return k;
}

/* Wakes every client: flush_output checks again whether its replies are delayed. */
void control_resume_replies(struct control *k)
{
	struct client *cl;
	LIST_FOREACH (cl, &k->clients, entry)
		client_wake(cl);
}

void control_stop_accepting(struct control *k)
{
	k->accepting = false;
	if (k->accept_ev)
		event_del(k->accept_ev);
	event_del(k->accept_again_ev);
}

bool control_displays_terminal(void *control, const char *process_id)
{
	const struct control *k = control;

	return attachment_any(&k->attachments, process_id);
}

bool control_has_active_client(const struct control *k)
{
	const struct client *cl;

	LIST_FOREACH (cl, &k->clients, entry)
		if (cl->role != ROLE_OBSERVER)
			return true;
	return false;
}

/* Nothing may call back into control afterwards, so calls that the engine or store still holds are ended here. */
void control_free(struct control *k)
{
	if (!k)
		return;
	control_stop_accepting(k);
	attachments_done(&k->attachments); /* or every terminal would be resized once more */
	event_listing_drop_all(k);
	while (!LIST_EMPTY(&k->clients))
		client_end(LIST_FIRST(&k->clients));
	/* Commits in progress still refer to calls; twice, because an answer may be stored by a further commit. */
	for (int i = 0; i < 2 && !LIST_EMPTY(&k->leaving); i++)
		store_flush(k->o.store);
	while (!LIST_EMPTY(&k->leaving)) {
		struct client *cl = LIST_FIRST(&k->leaving);
		call_drop(&TAILQ_FIRST(&cl->calls)->call);
	}
	store_listen(k->o.store, NULL, NULL);
	event_metrics_done(&k->tally);
	if (k->accept_ev)
		event_free(k->accept_ev);
	event_free(k->accept_again_ev);
	event_free(k->turn_ev);
	strmap_done(&k->flights);
	fd_close(&k->spare_fd);
	free(k->methods);
	free(k->scratch);
	tree_usage_done(&k->usage);
	fleet_board_done(&k->fleet);
	free(k);
}
