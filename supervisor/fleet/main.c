/*
 * bailiff-fleet: makes its daemon a node of a fleet.
 *
 * The guard starts it when the daemon is a node, as the user of the fleet's tasks, with a connection to the control
 * socket, and restarts it when it exits. It has no state of its own: what it claimed is on the bus, what runs is in the
 * daemon's log, and fleet_node.c adopts one by the other. It exits when the connection to the daemon breaks; the next
 * one finds a new runtime.
 *
 * One thread does everything here; those of libnats only deliver messages. The daemon's events wake it, so a task's end
 * is noticed at once, and are copied to the bus.
 */

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/event_link.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/fleet/daemon_link.h"
#include "supervisor/fleet/event_copy.h"
#include "supervisor/fleet/fleet_node.h"
#include "supervisor/fleet/fleet_report.h"
#include "supervisor/fleet/node_config.h"
#include "supervisor/fleet/node_requests.h"
#include "supervisor/fleet/workspaces.h"
#include "supervisor/guard/guard_msg.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONNECT_MS 1000
#define AWAY_MS 30000u /* without the bus, after which the process starts over */

static volatile sig_atomic_t exit_requested;

static void on_term(int sig) { exit_requested = 1; }

struct program {
	struct node_config config;
	struct event_link link;
	struct fleet_port *port;
	struct daemon_link daemon;
	struct fleet_node node;
	struct event_copy copy;
	struct fleet_report report;
	char *work;
	int work_fd;
	struct workspaces workspaces;
	bool serves;      /* subscribed to requests */
	uint64_t seen_at; /* when the bus was last connected; boot clock, ms */
};

/* Every folder of the path, and one for this node. */
static int open_work(struct program *p, struct err *e)
{
	p->work = mem_printf("%s/%s", p->config.work, p->config.node.node);
	for (char *slash = p->work; (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		int r = mkdir(p->work, 0700);
		*slash = '/';
		if (r < 0 && errno != EEXIST)
			return err_sys(e, errno, "create the folder of workspaces '%s' (key fleet.workDir)", p->work);
	}
	if (mkdir(p->work, 0700) < 0 && errno != EEXIST)
		return err_sys(e, errno, "create the folder of workspaces '%s' (key fleet.workDir)", p->work);
	p->work_fd = open(p->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (p->work_fd < 0 || fstat(p->work_fd, &st) < 0)
		return err_sys(e, errno, "open '%s'", p->work);
	return st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH))
		       ? 0
		       : err_set(e, ERR_NOT_ALLOWED, "'%s' belongs to another user or others can write to it", p->work);
}

static int enter_sandbox(const struct program *p, struct err *e)
{
	const struct role_sandbox_path certificates[] = ROLE_SANDBOX_CERTIFICATES;
	struct role_sandbox_path paths[countof(certificates) + 5];
	size_t n = 0;

	for (; n < countof(certificates); n++)
		paths[n] = certificates[n];
	const char *const files[] = { p->config.bus.creds, p->config.bus.tls_ca, p->config.bus.tls_cert,
				      p->config.bus.tls_key };
	for (size_t i = 0; i < countof(files); i++)
		paths[n++] = (struct role_sandbox_path){ ROLE_SANDBOX_READ, files[i], -1 };
	paths[n++] = (struct role_sandbox_path){ ROLE_SANDBOX_WRITE, NULL, p->work_fd };
	return role_sandbox_enter(ROLE_SANDBOX_FLEET, paths, n, e);
}

static int initialize(struct program *p, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;

	event_link_init(&p->link, GUARD_FD_LISTEN);
	p->report.link = &p->link;
	buf_str(&params, "{\"clientName\":\"bailiff-fleet\",\"role\":\"operator\",\"interactive\":false}");
	if (event_link_call(&p->link, "initialize", &params, &answer, e) < 0)
		return -1;
	struct jval r = jval_of(answer.data, answer.len);
	jval_str(jval_get(r, "runtimeId"), p->config.node.instance, sizeof(p->config.node.instance));
	return event_copy_begin(&p->copy, &p->link, p->config.node.node, jval_uint(jval_get(r, "lastSequence"), 0), e);
}

/* Until the bus is there. −1: asked to exit, or the daemon is gone. */
static int connect_bus(struct program *p)
{
	char last[ERR_MESSAGE_MAX] = "";

	while (!exit_requested) {
		struct pollfd link = { .fd = GUARD_FD_LISTEN, .events = POLLRDHUP };
		struct err e = ERR_INIT;

		if (fleet_nats_new(&p->config.bus, &p->port, &e) == 0)
			return 0;
		if (strcmp(last, e.message) != 0)
			log_warning("no connection to the fleet yet: %s", e.message);
		snprintf(last, sizeof(last), "%s", e.message);
		fleet_report_problem(&p->report, p->config.node.node, e.message);
		if (poll(&link, 1, CONNECT_MS) > 0 && link.revents & (POLLRDHUP | POLLHUP))
			return -1;
	}
	return -1;
}

/* −1: the daemon is gone. */
static int read_events(struct program *p)
{
	for (;;) {
		struct jval event;
		int n = event_link_next(&p->link, 0, &event);

		if (n <= 0)
			return n;
		event_copy_add(&p->copy, event);
		p->node.checks |= event_copy_concerns_task(event);
	}
}

static void wait_until(struct program *p, uint64_t when)
{
	struct pollfd fds[] = { { .fd = GUARD_FD_LISTEN, .events = POLLIN },
				{ .fd = p->port->ops->wake_fd(p->port), .events = POLLIN } };
	uint64_t now = clock_boot_ms();

	poll(fds, countof(fds), when > now ? (int)(when - now) : 0);
}

/*
 * libnats gives a connection up for good after some errors (credentials that were refused twice). Another process
 * connects again and adopts what runs; leases are the daemon's to enforce.
 */
static bool connection_is_lost(struct program *p)
{
	uint64_t now = clock_boot_ms();

	if (p->port->ops->connected(p->port))
		p->seen_at = now;
	if (now - p->seen_at < AWAY_MS)
		return false;
	log_warning("no connection to the fleet for %u s: connecting again", AWAY_MS / 1000);
	return true;
}

/* Requests come by the node's name: they are answered once it is this daemon's, and not by two of the same name. */
static void serve_requests(struct program *p)
{
	struct err e = ERR_INIT;

	if (!p->node.named)
		return;
	if (!p->serves) {
		p->serves = p->port->ops->serve(p->port, p->config.node.node, &e) == 0;
		p->node.woken = true; /* what was enqueued before is not reported */
		p->node.classes_at = 0;
	}
	node_requests_serve(&p->node, &p->link);
}

static void read_clocks(uint64_t *ret_now, uint64_t *ret_real)
{
	*ret_now = clock_boot_ms();
	*ret_real = clock_real_us() / 1000;
}

static void serve(struct program *p)
{
	p->seen_at = clock_boot_ms();
	while (!exit_requested && !connection_is_lost(p)) {
		if (read_events(p) < 0)
			return;
		p->node.woken |= p->port->ops->take_wake(p->port);
		serve_requests(p);
		event_copy_send(&p->copy, p->port);
		fleet_report_tick(&p->report, &p->node);
		uint64_t next = fleet_node_tick(&p->node, clock_boot_ms(), clock_real_us() / 1000);
		workspaces_tick(&p->workspaces, &p->node, clock_boot_ms(), clock_real_us() / 1000);
		wait_until(p, next);
	}
}

/* The guard does not start it again. */
static int refuse(const struct err *e)
{
	log_error("%s%s%s; this daemon takes no tasks of a fleet", e->field, e->field[0] ? ": " : "", e->message);
	return GUARD_EXIT_CONFIG;
}

int main(int argc, char **argv)
{
	static struct program p = { .work_fd = -1 };
	const struct guard_msg ready = { .kind = GUARD_READY };
	const struct sigaction term = { .sa_handler = on_term };
	struct err e = ERR_INIT;

	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGTERM, &term, NULL);
	log_setup("bailiffd fleet", LOG_LEVEL_INFO, false);
	if (node_config_read(argc, argv, GUARD_FD_CONFIG, &p.config, &e) < 0 || open_work(&p, &e) < 0)
		return refuse(&e);
	log_setup("bailiffd fleet", LOG_LEVEL_INFO, p.config.log_format && strcmp(p.config.log_format, "json") == 0);
	if (enter_sandbox(&p, &e) < 0) {
		log_error("%s", e.message);
		return GUARD_EXIT_CONFIG;
	}
	if (!p.config.node.nsubmitters)
		log_warning("fleet.submitters is empty: this node takes no tasks");
	if (initialize(&p, &e) < 0) {
		log_error("cannot use the daemon: %s", e.message);
		return 1;
	}
	if (workspaces_init(&p.workspaces, p.work_fd, p.config.node.instance, p.config.keep_ms, &e) < 0) {
		if (e.field[0])
			return refuse(&e);
		log_error("%s", e.message); /* a full disk, for example: the guard tries again */
		return 1;
	}
	if (fd_send(GUARD_FD_LINK, &ready, sizeof(ready), NULL, 0, 0) < 0)
		return 1;
	if (connect_bus(&p) < 0)
		return GUARD_EXIT_DONE;
	log_info("node '%s' of the fleet at %s", p.config.node.node, p.config.bus.url);
	if (p.port->differs)
		log_warning("the server stores the fleet with other settings than this node's: %s", p.port->differs);
	daemon_link_init(&p.daemon, &p.link, p.port, p.work_fd, p.work);
	fleet_node_init(&p.node, p.port, &p.daemon.daemon, &p.config.node);
	p.node.clock = read_clocks;
	serve(&p);
	return GUARD_EXIT_DONE;
}
