#include "supervisor/host/host_ports.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/loop/loop.h"
#include "sandbox/audit.h"
#include "supervisor/host/cow_changes.h"
#include "supervisor/host/cow_ports.h"
#include "supervisor/host/process_io.h"
#include "supervisor/host/published_port.h"
#include "supervisor/host/rule_writer.h"
#include "supervisor/host/screens.h"
#include "supervisor/host/workspace_ports.h"
#include "supervisor/spawner/member_msg.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RESEND_MS 2
#define TRIES_MAX 100u /* attempts to start one process, each lost with its spawner */

static struct process_io *find_process_io(void *host, const char *id)
{
	struct host_ports *w = host;

	return strmap_get(&w->process_ios, id);
}

/* ---- time ---- */

static uint64_t port_real_us(void *host) { return clock_real_us(); }

static uint64_t port_boot_ns(void *host) { return clock_boot_ns(); }

static void on_time(void *ctx)
{
	struct host_ports *w = ctx;

	engine_tick(w->engine);
}

static void port_wake_at(void *host, uint64_t boot_ns)
{
	struct host_ports *w = host;

	deadline_timer_arm(&w->timer, boot_ns);
}

static void port_base_env(void *host, uint32_t uid, struct buf *out)
{
	struct host_ports *w = host;

	base_env_get(&w->base_env, uid, out);
}

/* ---- peers and policy ---- */

static void port_add_peer(void *host, uint32_t uid, int peer_fd)
{
	struct host_ports *w = host;

	known_peers_add(&w->peers, uid, peer_fd);
}

static void port_authorise(void *host, int peer_fd, const char *paths, size_t len, bool delay_reply)
{
	struct host_ports *w = host;

	root_grants_request(&w->grants, peer_fd, paths, len, delay_reply);
}

static uint32_t port_want_reload(void *host)
{
	struct host_ports *w = host;

	return guard_link_want_reload(&w->guard);
}

static int port_write_rule(void *host, const struct port_rule *r, struct err *e)
{
	struct host_ports *w = host;

	return rule_writer_add(w->rule_writer, r, e);
}

static int port_find_peer(void *host, uint32_t uid)
{
	struct host_ports *w = host;

	return known_peers_find(&w->peers, uid);
}

/* ---- launching ---- */

static int launch_member(struct process_io *io);

static void fail_launch(const struct process_io *io, int error)
{
	const bool ended = io->within[0] && error == ECONNRESET; /* launch_member */

	engine_on_launch_failed(io->host->engine, io->key.id, STEP_CLONE, error,
				ended ? REASON_SANDBOX_ENDED : REASON_NONE, "");
}

/* Another attempt of a start that was lost with its spawner. */
static void launch_try(struct process_io *io)
{
	if (io->within[0]) {
		io->launching = false;
		errno = ECONNABORTED;
		if (io->tries >= TRIES_MAX || launch_member(io) < 0)
			fail_launch(io, errno);
		return;
	}
	if (io->tries < TRIES_MAX && process_io_launch(io) == 0)
		return;
	const int error = io->tries < TRIES_MAX ? errno : ECONNRESET;
	io->launching = false;
	fail_launch(io, error);
}

/* A start that failed before anything was sent; reported from the loop. */
struct stillborn {
	struct host_ports *host;
	struct plan_key key;
	int error;
};

static void on_stillborn(evutil_socket_t fd, short what, void *ctx)
{
	struct stillborn *s = ctx;

	const struct process_io *io = find_process_io(s->host, s->key.id);

	if (io)
		fail_launch(io, s->error);
	free(s);
}

static struct port_expected port_expect(void *host, uint64_t hint)
{
	struct host_ports *w = host;

	return spawn_link_announce(&w->spawner, hint);
}

static void on_resend(evutil_socket_t fd, short what, void *ctx);

/* 0 = sent, or it will be. −1 with errno; ECONNRESET: the holder is gone. */
static int launch_member(struct process_io *io)
{
	const struct timeval later = { .tv_usec = RESEND_MS * 1000 };
	const struct process_io *holder = find_process_io(io->host, io->within);

	if (!holder || holder->gone) {
		errno = ECONNRESET;
		return -1;
	}
	if (process_io_needs_limits(io))
		return process_io_request_limits(io, holder);
	int r = process_io_launch_member(io, holder);
	if (r <= 0) {
		fd_close(&io->limits_fd);
		if (r < 0 && errno == EPIPE)
			errno = ECONNRESET;
		return r;
	}
	/* The link is full: the holder works off the starts before this one. */
	if (!io->resend)
		io->resend = evtimer_new(io->host->base, on_resend, io);
	loop_add(io->resend, &later);
	return 0;
}

static void on_resend(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io *io = ctx;

	if (launch_member(io) < 0)
		fail_launch(io, errno);
}

static void port_launch(void *host, const char *id, const void *plan, size_t plan_len, uint32_t flags,
			const struct port_streams *streams, int peer_fd)
{
	struct process_io *io = process_io_new(host, id, streams);

	buf_append(&io->plan, plan, plan_len);
	if (streams->hosts)
		buf_append(&io->rules, streams->hosts->rule, streams->hosts->count * sizeof *streams->hosts->rule);
	io->names.hosts = NULL;
	io->given = streams->input != NULL;
	io->given_stays = streams->input_stays;
	if (io->given)
		buf_str(&io->input, streams->input);
	io->names.input = NULL;
	io->flags = flags;
	io->cow = flags & PLAN_COW && !(flags & PLAN_MEMBER); /* a member changes its sandbox's files */
	if (!io->within[0] || process_io_needs_limits(io))    /* the spawner takes part */
		io->peer_fd = fcntl(peer_fd, F_DUPFD_CLOEXEC, 3);
	const struct abandoned *before = strmap_get(&io->host->abandoned, id);
	io->key.attempt = before ? before->attempt : 0;
	if (before && !before->released) {
		io->launching = io->waits_for_release = true;
		return;
	}
	if (io->within[0] ? launch_member(io) < 0 : process_io_launch(io) < 0) {
		/* Reported later: the engine is still handling the request. */
		const struct timeval now = { 0 };
		struct stillborn *s = mem_zalloc(1, sizeof *s);
		*s = (struct stillborn){ .host = host, .key = io->key, .error = errno };
		event_base_once(io->host->base, -1, EV_TIMEOUT, on_stillborn, s, &now);
	}
}

/* A reply to an earlier attempt, or to a start that has ended since, is ignored; the guard releases that attempt. */
static void on_spawn_started(void *host, const struct spawn_msg *m, int pidfd)
{
	struct process_io *io = find_process_io(host, m->key.id);
	struct host_ports *w = host;

	if (!io || !io->launching || io->key.attempt != m->key.attempt) {
		fd_close(&pidfd);
		return;
	}
	io->fds[GUARD_SLOT_PIDFD] = pidfd;
	io->pid = m->pid;
	process_io_watch(io);
	const struct port_started s = {
		.pid = m->pid, .start_time = m->start_time, .layers = m->layers, .attempt = m->key.attempt
	};
	engine_on_started(w->engine, m->key.id, &s);
}

/* The cgroups of a member exist: its holder can start it. */
static void on_spawn_limited(void *host, const struct spawn_msg *m)
{
	struct process_io *io = find_process_io(host, m->key.id);
	struct host_ports *w = host;

	if (!io || !io->launching || io->key.attempt != m->key.attempt) {
		spawn_link_remove_leaf(&w->spawner, &m->key);
		return;
	}
	io->launching = false;
	if (launch_member(io) < 0)
		fail_launch(io, errno);
}

static void on_spawn_failed(void *host, const struct spawn_msg *m)
{
	struct process_io *io = find_process_io(host, m->key.id);
	struct host_ports *w = host;

	if (!io || !io->launching || io->key.attempt != m->key.attempt)
		return;
	io->launching = false;
	engine_on_launch_failed(w->engine, m->key.id, m->step, m->error,
				m->reason < REASON_COUNT ? m->reason : REASON_NONE, m->path);
}

/*
 * The spawner died during this start. Whatever it did, the command waits at a gate that was not opened: the guard ends
 * this attempt, and another one follows with new pipes.
 */
static void on_spawn_unanswered(void *host, const struct plan_key *key)
{
	struct process_io *io = find_process_io(host, key->id);
	struct host_ports *w = host;

	if (!io || !io->launching || io->key.attempt != key->attempt)
		return;
	if (io->within[0]) { /* nothing was started yet: only its cgroups were requested */
		fd_close(&io->limits_fd);
		launch_try(io);
		return;
	}
	process_io_abort_launch(io);
	io->waits_for_release = true;
	guard_link_release(&w->guard, key);
}

/*
 * A spawner can die after it has made a member's cgroups and before it moves the leader there. Nothing ran: the guard
 * ends this attempt, and another one follows with new cgroups.
 */
static bool launch_again(struct process_io *io, const struct status_msg *last)
{
	if (!io->within[0] || io->led || !io->plan.len || last->kind != STATUS_FAILED || last->step != STEP_LIMITS ||
	    (last->error != ECONNRESET && last->error != EPIPE) || io->tries >= TRIES_MAX)
		return false;
	process_io_abort_launch(io);
	io->waits_for_release = true;
	guard_link_release(&io->host->guard, &io->key);
	return true;
}

static void on_released(void *host, const struct plan_key *key, bool was_alive)
{
	struct process_io *io = find_process_io(host, key->id);
	struct host_ports *w = host;
	struct abandoned *before = strmap_get(&w->abandoned, key->id);

	spawn_link_remove_leaf(&w->spawner, key);
	if (before && before->attempt == key->attempt)
		before->released = true;
	if (io && io->waits_for_release && io->key.attempt == key->attempt) {
		io->waits_for_release = false;
		launch_try(io);
	}
}

/* ---- the other ports ---- */

static void port_signal(void *host, const char *id, int sig)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		process_io_signal_init(io, STATUS_SIGNAL, (uint32_t)sig);
}

static void port_kill_tree(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		process_io_signal_init(io, STATUS_KILL_TREE, 0);
}

static void port_kill(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (!io)
		return;
	if (!io->within[0])
		return guard_link_kill(&io->host->guard, &io->key);
	/* The holder kills the member's tree. If it does not, the whole sandbox is killed: that always works. */
	struct process_io *holder = find_process_io(host, io->within);
	if (!holder)
		return;
	if (io->kills++ > 0 || member_msg_send_kill(holder->fds[GUARD_SLOT_STDIN], &io->key) < 0)
		guard_link_kill(&io->host->guard, &holder->key);
}

/* The guard and the next runtime have the same timer: what one of them sets holds for all. */
static void port_limit(void *host, const char *id, uint64_t boot_ns)
{
	struct process_io *io = find_process_io(host, id);
	const struct itimerspec at = { .it_value = { (time_t)(boot_ns / 1000000000), (long)(boot_ns % 1000000000) } };
	const bool fresh = io && io->fds[GUARD_SLOT_LIMIT] < 0;

	if (!io || io->within[0])
		return;
	if (fresh)
		io->fds[GUARD_SLOT_LIMIT] = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (timerfd_settime(io->fds[GUARD_SLOT_LIMIT], TFD_TIMER_ABSTIME, &at, NULL) < 0) {
		log_warning("%s is killed: no timer for its time limit: %s", id, strerror(errno));
		port_kill(host, id);
	} else if (fresh)
		guard_link_deposit(&io->host->guard, &io->key, 1u << GUARD_SLOT_LIMIT, io->fds);
}

static void port_open_gate(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (io && process_io_open_gate(io) < 0)
		port_kill(host, id);
}

static ssize_t port_write_stdin(void *host, const char *id, const void *p, size_t n)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		return process_io_write_stdin(io, p, n);
	errno = EPIPE;
	return -1;
}

static void port_close_stdin(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		process_io_close_stdin(io);
}

static void port_close_output(void *host, const char *id, int stream)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		process_io_close_output(io, stream);
}

static int port_line(void *host, const char *id, struct port_line *ret)
{
	const struct process_io *io = find_process_io(host, id);

	if (io)
		return process_io_line(io, ret);
	errno = ESRCH;
	return -1;
}

/* The screen learns the offset at which the size changed, so that a rebuilt one is the same. */
static int port_resize(void *host, const char *id, uint32_t rows, uint32_t cols)
{
	const struct process_io *io = find_process_io(host, id);
	struct host_ports *w = host;

	if (!io) {
		errno = ESRCH;
		return -1;
	}
	if (process_io_resize(io, rows, cols) < 0)
		return -1;
	if (w->screens)
		screens_on_resize(w->screens, id, io->streams[STREAM_PTY].spool.size, rows, cols);
	return 0;
}

static int port_output_fd(void *host, const char *id, int stream)
{
	struct process_io *io = find_process_io(host, id);

	return io ? io->streams[stream].spool.fd : -1;
}

static ssize_t port_peek_output(void *host, const char *id, int stream, uint64_t offset, void *p, size_t n)
{
	int fd = port_output_fd(host, id, stream);

	return fd >= 0 ? fd_pread_all(fd, p, n, offset) : 0;
}

static void port_stop_reading(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (io)
		process_io_stop_reading(io);
}

/* Both are asked, without short-circuit: each one starts its own wait. */
static bool port_settle(void *host, const char *id)
{
	struct process_io *io = find_process_io(host, id);

	if (!io)
		return false;
	bool audit = audit_reader_drain(&io->host->audit, io), proxy = proxy_link_drain(&io->host->proxy, io);
	return audit || proxy;
}

/* host_ports.drained */
static void on_drained(struct host_ports *w, const char *id)
{
	const struct process_io *io = find_process_io(w, id);

	if (!io || (!io->audit_mark && !io->net_ending))
		engine_on_reports_complete(w->engine, id);
}

static int port_publish(void *host, const char *id, const struct port_publication *p)
{
	struct process_io *io = find_process_io(host, id);

	if (!io)
		errno = ESRCH;
	if (!io || published_port_add(io, p) < 0)
		return -1;
	proxy_link_publish(&io->host->proxy);
	return 0;
}

static int port_unpublish(void *host, const char *id, uint16_t port)
{
	struct process_io *io = find_process_io(host, id);
	int r = io ? published_port_end(io, port) : 1;

	if (r == 0)
		proxy_link_publish(&io->host->proxy);
	return r;
}

/* The end is durable. `unspilled`: streams whose output is in the database, so that their files are removed. */
static void port_release(void *host, const char *id, unsigned unspilled)
{
	struct host_ports *w = host;
	struct process_io *io = find_process_io(host, id);

	if (!io)
		return;
	spawn_link_answered(&w->spawner);
	if (io->key.attempt)
		guard_link_release_later(&io->host->guard, &io->key, process_io_release_of(io));
	if (io->limited)
		spawn_link_remove_leaf(&w->spawner, &io->key);
	if (io->cow && io->host->changes)
		cow_changes_on_ended(io->host->changes, id);
	process_io_free(io, unspilled);
	if (w->screens)
		screens_on_ended(w->screens, id);
}

/* ---- screens for the engine ---- */

struct screen_for_engine {
	struct host_ports *host;
	char id[ID_SIZE], process_id[ID_SIZE];
};

static void on_screen(void *ctx, const struct err *e, const struct screen *s, enum screens_reason why, bool ended)
{
	struct screen_for_engine *x = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct screen_info i = { 0 };

	if (!e) {
		screen_info(s, &i);
		screen_text(s, 0, &text);
	}
	const struct port_screen shown = { .process_id = x->process_id,
					   .text = buf_cstr(&text),
					   .rows = i.rows,
					   .cols = i.cols,
					   .cursor_row = i.cursor_row,
					   .cursor_col = i.cursor_col,
					   .timed_out = why == SCREENS_TIMED_OUT,
					   .ended = ended };
	engine_on_screen(x->host->engine, x->id, &shown, e);
	free(x);
}

static int port_screen(void *host, const struct port_screen_request *r, struct err *e)
{
	struct screens_request q = { .process_id = r->process_id,
				     .viewer = r->uid,
				     .wait = r->wait,
				     .exit = true,
				     .idle_ms = r->idle_ms,
				     .timeout_ms = r->timeout_ms };
	struct host_ports *w = host;

	if (!w->screens)
		return err_set(e, ERR_UNAVAILABLE, "this runtime does not serve terminals");
	if (screen_condition_init(&q.condition, r->text, r->regex, e) < 0)
		return -1;
	struct screen_for_engine *x = mem_zalloc(1, sizeof(*x));
	x->host = w;
	snprintf(x->id, sizeof(x->id), "%s", r->id);
	snprintf(x->process_id, sizeof(x->process_id), "%s", r->process_id);
	screens_submit(w->screens, &q, on_screen, x);
	return 0;
}

const struct ports host_ports_table = {
	.real_us = port_real_us,
	.boot_ns = port_boot_ns,
	.wake_at = port_wake_at,
	.base_env = port_base_env,
	.add_peer = port_add_peer,
	.find_peer = port_find_peer,
	.authorise = port_authorise,
	.want_reload = port_want_reload,
	.policy_of = workspace_port_policy,
	.repos_of = workspace_port_repos,
	.rules_of = workspace_port_rules,
	.git_of = workspace_port_git,
	.write_rule = port_write_rule,
	.expect = port_expect,
	.screen = port_screen,
	.launch = port_launch,
	.open_gate = port_open_gate,
	.signal = port_signal,
	.kill_tree = port_kill_tree,
	.kill = port_kill,
	.limit = port_limit,
	.write_stdin = port_write_stdin,
	.close_stdin = port_close_stdin,
	.close_output = port_close_output,
	.line = port_line,
	.resize = port_resize,
	.peek_output = port_peek_output,
	.output_fd = port_output_fd,
	.stop_reading = port_stop_reading,
	.discard_changes = cow_port_discard,
	.copy_changes = cow_port_copy,
	.drop_changes = cow_port_drop,
	.settle = port_settle,
	.publish = port_publish,
	.unpublish = port_unpublish,
	.release = port_release,
};

/* ---- set-up ---- */

static void on_peer(void *host, enum guard_role role, int fd)
{
	struct host_ports *w = host;

	if (role == GUARD_PROXY)
		return proxy_link_replace(&w->proxy, fd);
	spawn_link_replace(&w->spawner, fd);
	audit_reader_retry_mark(&w->audit);
}

static void on_stop(void *host)
{
	struct host_ports *w = host;

	w->stop(w->ctx);
}

static void on_reload(void *host, const int files[GUARD_FILES], uint32_t token)
{
	struct host_ports *w = host;

	w->reload(w->ctx, files, token);
}

static void on_fleet(void *host, int32_t pid) { ((struct host_ports *)host)->fleet_pid = pid; }

static const struct guard_link_events guard_events = { on_released, on_peer, on_stop, on_reload, on_fleet };

static void on_spawn_changed(void *host, const struct spawn_msg *m)
{
	struct host_ports *w = host;

	if (w->changes)
		cow_changes_on_answer(w->changes, m);
}

static void on_spawn_broken(void *host)
{
	struct host_ports *w = host;

	guard_link_want_restart(&w->guard, GUARD_SPAWNER);
}

static const struct spawn_link_events spawn_events = { on_spawn_started,    on_spawn_limited, on_spawn_failed,
						       on_spawn_unanswered, on_spawn_changed, on_spawn_broken };

/* Nothing is read or sent before host_ports_recover and host_ports_listen. */
void host_ports_init(struct host_ports *w, struct event_base *base, struct store *store, int guard_fd, int spawner_fd,
		     int spool_dir, int audit_fd)
{
	*w = (struct host_ports){
		.ports = &host_ports_table, .drained = on_drained, .base = base, .store = store, .spool_dir = spool_dir
	};
	deadline_timer_init(&w->timer, base, on_time, w);
	w->launch_again = launch_again;
	guard_link_init(&w->guard, guard_fd, &guard_events, w);
	known_peers_init(&w->peers, &w->guard);
	spawn_link_init(&w->spawner, spawner_fd, &spawn_events, w);
	root_grants_init(&w->grants, base, &w->spawner);
	audit_reader_init(&w->audit, w, audit_fd);
	proxy_link_init(&w->proxy, w);
}

void host_ports_listen(struct host_ports *w)
{
	guard_link_listen(&w->guard, w->base);
	spawn_link_listen(&w->spawner, w->base);
	audit_reader_listen(&w->audit, w->base);
	proxy_link_listen(&w->proxy);
}

static void free_process_io(void *ctx, const char *id, void *value) { process_io_free(value, 0); }

static void free_abandoned(void *ctx, const char *id, void *value) { free(value); }

/* The process_ios first: they unregister from the audit reader and the proxy link. */
void host_ports_done(struct host_ports *w)
{
	strmap_each(&w->process_ios, free_process_io, NULL);
	strmap_done(&w->process_ios);
	strmap_each(&w->abandoned, free_abandoned, NULL);
	strmap_done(&w->abandoned);
	root_grants_done(&w->grants);
	known_peers_done(&w->peers);
	deadline_timer_done(&w->timer);
	base_env_done(&w->base_env);
	audit_reader_done(&w->audit);
	proxy_link_done(&w->proxy);
	guard_link_done(&w->guard);
	spawn_link_done(&w->spawner);
}
