/*
 * The runtime process: opens the store, takes over the guard's descriptors, and serves. The guard starts it without
 * privileges and with its descriptors in place. It may be killed at any moment; the next one continues.
 *
 * Three kinds of end, by exit status. 0: stopped or idle; every process has ended and is recorded, and the guard exits
 * too. GUARD_EXIT_CONFIG: a restart cannot help, for example because the configuration is invalid or the store corrupt;
 * the guard gives up. Anything else, also a signal: the guard starts another runtime, which recovers.
 *
 * Connections are accepted only when the loop runs, after set-up. Until then they wait in the queue of the listening
 * socket, which the guard keeps open, so clients that connect during a restart see a delay and no error. READY resets
 * the guard's restart delay; the first one also makes the command that started the daemon return.
 */

#include "supervisor/runtime/runtime.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/random.h"
#include "runtime/engine/core/engine.h"
#include "runtime/loop/loop.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "sandbox/placeholder.h"
#include "supervisor/common/private_paths.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/control/control.h"
#include "supervisor/host/config.h"
#include "supervisor/host/cow_changes.h"
#include "supervisor/host/git_search.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/policy_files.h"
#include "supervisor/host/retention.h"
#include "supervisor/host/retention_clock.h"
#include "supervisor/host/rule_writer.h"
#include "supervisor/host/screens.h"
#include "supervisor/host/workspace_policy.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)
#define IDLE_CHECK_S 1
#define STORE_WAIT_MS 30000
#define STORE_POLL_MS 5
#define RETENTION_S 3600
#define HOUR_US 3600000000ll
#define HEAP_KEPT (1 << 20)
#define TRIM_S 10

struct runtime {
	const struct runtime_options *o;
	struct config config;
	int files[GUARD_FILES]; /* opened by the guard; −1 = does not exist */
	struct policy_files policy;
	struct private_paths private_paths;
	char *webhook, *model; /* bailiff-webhook and bailiff-model; NULL = not installed */
	struct event_base *base;
	struct store *store;
	struct engine *engine;
	struct control *control;
	struct host_ports host;
	struct git_searches searches;
	struct workspace_policies workspaces;
	struct rule_writer rule_writer;
	struct cow_changes changes;
	struct screens screens;
	struct event *store_ev, *idle_ev, *retention_ev, *trim_ev;
	uint64_t trim_sequence; /* the last event when trim_ev was added */
	struct retention_queue retention;
	bool pruning;        /* as configured */
	bool clock_reported; /* by this runtime */
	struct retention_clock retention_clock;
	char boot_id[40];       /* "" if it cannot be read */
	uint64_t idle_since_ns; /* 0 = not idle */
	bool stop_wanted, stopping;
};

static int config_load(struct runtime *r, struct err *e)
{
	if (fcntl(GUARD_FD_CONFIG, F_GETFD) < 0) {
		config_defaults(&r->config);
		return 0;
	}
	mem_auto char *text = mem_alloc(CONFIG_MAX + 1);
	ssize_t n;
	if (lseek(GUARD_FD_CONFIG, 0, SEEK_SET) < 0 || (n = fd_read_all(GUARD_FD_CONFIG, text, CONFIG_MAX + 1)) < 0)
		return err_sys(e, errno, "read the configuration");
	if ((size_t)n > CONFIG_MAX)
		return err_set(e, ERR_INVALID, "the configuration is larger than 1 MiB");
	if (config_parse(text, (size_t)n, &r->config, e) == 0)
		return 0;
	/* Put the key into the message: a log line has no fields. */
	char key[ERR_FIELD_MAX];
	snprintf(key, sizeof key, "%s", e->field);
	return key[0] ? err_wrap(e, "configuration: %s", key) : err_wrap(e, "configuration");
}

/* Starts record it, because boot times are comparable only within one boot. */
static void read_boot_id(char out[40])
{
	fd_auto int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, 36);

	out[n == 36 ? 36 : 0] = '\0';
}

/* ---- the store ---- */

#define META_VIEWS "views.version"

static void on_folded(void *ctx, const struct store_verdict *v, const struct err *e)
{
	*(int *)ctx = e ? -1 : 1;
	if (e)
		log_error("rebuild the read models: %s", e->message);
}

/* Read models of another version are rebuilt before anything reads one. */
static int store_renew(struct runtime *r, struct err *e)
{
	buf_auto struct buf version = BUF_INIT;
	int done = 0, known = store_meta_get(r->store, META_VIEWS, &version, e);

	if (known < 0)
		return -1;
	if (known == 0 && strcmp(buf_cstr(&version), VIEW_VERSION) == 0)
		return 0;
	if (!store_is_new(r->store)) {
		log_info("the read models have another version: rebuilding them from the log");
		store_rebuild(r->store, on_folded, &done);
		while (!done) {
			struct pollfd p = { .fd = store_dispatch_fd(r->store), .events = POLLIN };

			poll(&p, 1, -1);
			store_dispatch(r->store);
		}
		if (done < 0)
			return err_set(e, ERR_UNAVAILABLE, "the read models cannot be rebuilt");
	}
	struct store_batch *b = store_batch_new(r->store);
	store_batch_meta(b, META_VIEWS, VIEW_VERSION, strlen(VIEW_VERSION));
	store_submit(r->store, b, STORE_MUST, NULL, NULL);
	return 0;
}

/*
 * The key of resume tokens is a file next to the database, so neither the log nor a backup has what opens a channel. If
 * it cannot be kept, tokens are valid as usual, but a request that is repeated after a restart gets another one.
 */
static void read_token_key(uint8_t ret[32])
{
	fd_auto int fd = openat(GUARD_FD_STORE, "token.key", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0 && pread(fd, ret, 32, 0) == 32)
		return;
	random_bytes(ret, 32);
	if (fd < 0 || fd_write_all(fd, ret, 32) < 0 || fsync(fd) < 0 || fsync(GUARD_FD_STORE) < 0)
		log_warning("the key of resume tokens cannot be kept: %s", strerror(errno));
}

static int store_start(struct runtime *r, struct err *e)
{
	char dir[32], spool[32];

	snprintf(dir, sizeof dir, "/proc/self/fd/%d", GUARD_FD_STORE);
	snprintf(spool, sizeof spool, "/proc/self/fd/%d", GUARD_FD_SPOOL);
	const struct store_options o = {
		.dir = dir,
		.spool_dir = spool,
		.map_bytes = r->config.store_map_bytes,
		.quota_bytes = r->config.store_quota_bytes,
		.project = view_project,
		.growing_models = view_growing_kinds,
		.project_speculative = view_project_speculative,
		.schema_version = r->config.schema_version,
	};
	/* Only the runtime of a killed guard can still have the store open. It is about to exit, so wait for it. */
	for (unsigned ms = 0; store_open(&o, &r->store, e) < 0; ms += STORE_POLL_MS) {
		if (e->code != ERR_CONFLICT || ms >= STORE_WAIT_MS)
			return -1;
		poll(NULL, 0, STORE_POLL_MS);
	}
	return store_renew(r, e);
}

static void trim_later(struct runtime *r)
{
	const struct timeval delay = { .tv_sec = TRIM_S };

	r->trim_sequence = store_last_sequence(r->store);
	loop_add(r->trim_ev, &delay);
}

/* An idle runtime returns the memory that its heaps keep for the next command. */
static void on_trim(evutil_socket_t fd, short what, void *ctx)
{
	struct runtime *r = ctx;

	if (store_last_sequence(r->store) != r->trim_sequence)
		trim_later(r);
	else
		malloc_trim(0);
}

static void on_store(evutil_socket_t fd, short what, void *ctx)
{
	struct runtime *r = ctx;

	store_dispatch(r->store);
	if (r->engine)
		engine_check_space(r->engine);
	if (!event_pending(r->trim_ev, EV_TIMEOUT, NULL))
		trim_later(r);
}

/* ---- the end ---- */

static void on_all_ended(void *ctx)
{
	struct runtime *r = ctx;

	event_base_loopexit(r->base, NULL);
}

/* Stop is requested by the guard, or by idle exit. The loop ends when every process has ended and is recorded. */
static void on_stop(void *ctx)
{
	struct runtime *r = ctx;

	r->stop_wanted = true;
	if (r->stopping || !r->control) /* not serving yet: runtime_main checks again */
		return;
	r->stopping = true;
	log_info("stopping");
	control_stop_accepting(r->control);
	engine_stop(r->engine, on_all_ended, r);
}

static void on_reload(void *ctx, const int files[GUARD_FILES], uint32_t token)
{
	struct runtime *r = ctx;

	log_info("loading the policy again");
	policy_files_load(&r->policy, files, token, r->engine);
	rule_writer_on_reload(&r->rule_writer, token);
}

/* Must run before anything else is opened: the descriptor number of a missing file is free and would be reused. */
static void find_files(struct runtime *r)
{
	static const int places[GUARD_FILES] = { [GUARD_FILE_CONFIG] = GUARD_FD_CONFIG,
						 [GUARD_FILE_POLICY] = GUARD_FD_POLICY,
						 [GUARD_FILE_HOST_POLICY] = GUARD_FD_HOST_POLICY };

	for (int i = 0; i < GUARD_FILES; i++)
		r->files[i] = fcntl(places[i], F_GETFD) < 0 ? -1 : places[i];
}

/* A daemon that a command started automatically exits after being idle for a while. */
static void on_idle_check(evutil_socket_t fd, short what, void *ctx)
{
	struct runtime *r = ctx;
	struct engine_counts n;

	engine_counts_get(r->engine, &n);
	if (n.live || control_has_active_client(r->control)) {
		r->idle_since_ns = 0;
		return;
	}
	uint64_t now = clock_boot_ns();
	if (!r->idle_since_ns)
		r->idle_since_ns = now;
	if ((now - r->idle_since_ns) / 1000000 >= r->config.idle_exit_ms)
		on_stop(r);
}

/* ---- retention, as configured: at the start and every hour ---- */

static void on_pruned(void *ctx, const struct retention_result *n, const struct err *e)
{
	struct runtime *r = ctx;

	r->pruning = false;
	if (!r->engine || r->stopping) /* the store is being closed; the next start prunes */
		return;
	if (e)
		engine_warn(r->engine, "retention_failed", "check the disk; the next attempt is within an hour",
			    "old events could not be pruned: %s", e->message);
	else if (n->events || n->outputs || n->sessions)
		log_info("retention: %llu events, %llu outputs and %llu sessions removed",
			 (unsigned long long)n->events, (unsigned long long)n->outputs,
			 (unsigned long long)n->sessions);
}

#define RETENTION_CLOCK_FIX                                                                                           \
	"set the clock if it is wrong; a correct one is accepted after a week at most, and bailiff store prune does " \
	"not wait"

/* What is pruned does not come back: the time must be certain. */
static uint64_t retention_now(struct runtime *r)
{
	const struct retention_clock_reading now = { clock_real_us(), clock_boot_ns(), r->boot_id };
	struct retention_clock *c = &r->retention_clock;
	bool waited = retention_clock_waits(c);
	const struct retention_clock_limits limits = retention_clock_limits_of(&r->config);
	uint64_t used = retention_clock_read(c, &now, &limits);

	retention_clock_keep(c, r->store);
	if (retention_clock_waits(c) && (!waited || !r->clock_reported)) {
		r->clock_reported = true;
		engine_warn(r->engine, "retention_waits", RETENTION_CLOCK_FIX,
			    "the clock differs by %lld hours from the time that has passed since the newest event",
			    (long long)(c->ahead_us / HOUR_US));
	}
	return used;
}

/* One run at a time; a run that takes longer than an hour skips the next one. */
static void on_retention(evutil_socket_t fd, short what, void *ctx)
{
	struct runtime *r = ctx;
	uint64_t floor = 0;
	struct err e = ERR_INIT;

	if (r->pruning)
		return;
	uint64_t now = retention_now(r);
	if (retention_floor(r->store, &r->config, now, &floor, &e) < 0) {
		log_error("retention: %s", e.message);
		return;
	}
	r->pruning = true;
	cow_changes_expire(&r->changes, floor);
	retention_run(&r->retention, r->store, floor, retention_idem_before(&r->config, now), on_pruned, r);
}

/* ---- set-up ---- */

/* Installed next to bailiff-tool. */
static char *find_program_of_bailiff(const struct runtime *r, const char *name)
{
	const char *tool = r->o->tool_program, *slash = tool ? strrchr(tool, '/') : NULL;
	mem_auto char *path = slash ? mem_printf("%.*s/%s", (int)(slash - tool), tool, name) : NULL;

	return path && access(path, X_OK) == 0 ? mem_take(&path) : NULL;
}

/* 1 = exists, 2 = a placeholder stands for it, 0 = does not exist, −1 = unknown. */
static int sees_path(const char *path)
{
	struct stat st;

	if (lstat(path, &st) == 0)
		return placeholder_is(&st) ? 2 : 1;
	return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
}

static bool audit_is_on(const struct runtime *r) { return strcmp(r->o->audit_state, "on") == 0; }

static void engine_start(struct runtime *r)
{
	r->webhook = find_program_of_bailiff(r, "bailiff-webhook");
	r->model = find_program_of_bailiff(r, "bailiff-model");
	struct engine_options o = {
		.store = r->store,
		.ports = &host_ports_table,
		.host = &r->host,
		.defaults = {
			.wall_ms = r->config.default_wall_ms ? r->config.default_wall_ms : LIMIT_NONE,
			.idle_ms = r->config.default_idle_ms ? r->config.default_idle_ms : LIMIT_NONE,
			.cpu_ms = r->config.default_cpu_ms ? r->config.default_cpu_ms : LIMIT_NONE,
			.open_files = LIMIT_NONE,
			.file_bytes = LIMIT_NONE,
			.output_bytes = r->config.default_output_bytes ? r->config.default_output_bytes : LIMIT_NONE,
		},
		.stop_grace_ms = r->config.stop_grace_ms,
		.turn_grace_ms = r->config.turn_grace_ms,
		.max_processes = (uint32_t)r->config.max_processes,
		.max_processes_per_uid = (uint32_t)r->config.max_processes_per_uid,
		.inline_bytes = (uint32_t)r->config.inline_bytes,
		.max_tasks = (uint32_t)r->config.max_tasks,
		.task_worker_ms = r->config.task_worker_ms,
		.ask_ms = r->config.permission_timeout_ms,
		.ask_alone_ms = r->config.permission_alone_ms,
		.tool_program = r->o->tool_program,
		.webhook_program = r->webhook,
		.model_program = r->model,
		.boot_id = r->boot_id,
		.owner_uid = r->o->owner_uid,
		.violations = audit_is_on(r),
		/* with a root daemon, another user's file system could block the runtime for every client */
		.sees_path = r->o->privileged ? NULL : sees_path,
		.violations_since_ns = r->o->audit_since_ns,
		.secrets = r->private_paths.path,
		.nsecrets = r->private_paths.npath,
		.secret_folders = r->private_paths.folder,
		.nsecret_folders = r->private_paths.nfolder,
		.publish_addresses = r->config.publish_addresses,
		.npublish_addresses = r->config.npublish_addresses,
	};
	read_token_key(o.token_key);
	r->engine = engine_new(&o);
	r->host.engine = r->engine;
}

/* An operator who switched audit off gets no warning. */
static void warn_of_audit(struct runtime *r)
{
	if (!audit_is_on(r) && r->o->privileged && strncmp(r->o->audit_state, "switched off", 12) != 0)
		engine_warn(r->engine, "violations_unavailable",
			    "bailiffd --audit off accepts that; bailiff doctor shows what is enforced",
			    "denials by the kernel are only guessed from the output of commands: %s",
			    r->o->audit_state);
}

/* Where denials are read from. The proxy and the resolver always report exactly. */
static void violation_sources(const struct runtime *r, struct jw *w)
{
	static const char *const exact[] = { "proxy", "resolver", "audit", "landlock", "seccomp" }, *const guessed[] = {
		"proxy", "resolver", "output"
	};
	bool on = audit_is_on(r);

	jw_kstr(w, "confidence", on ? "exact" : "hint");
	jw_karr(w, "sources");
	for (size_t i = 0; i < (on ? countof(exact) : countof(guessed)); i++)
		jw_str(w, on ? exact[i] : guessed[i]);
	jw_arr_end(w);
	if (on)
		return;
	jw_kstr(w, "why", r->o->audit_state);
	if (!r->o->privileged)
		jw_kstr(w, "fix", "for exact denials run bailiffd as root, for example as the system service");
	else if (strncmp(r->o->audit_state, "switched off", 12) == 0)
		jw_kstr(w, "fix", "start bailiffd without --audit off");
	else
		jw_kstr(w, "fix",
			"remove the cause: bailiffd tries again every 30 seconds; in a container, only a daemon on the "
			"host gets exact denials");
}

static void write_health(void *ctx, struct buf *members)
{
	const struct runtime *r = ((const struct host_ports *)ctx)->ctx;
	struct jw w = jw_on(members);

	jw_kstr(&w, "home", r->o->home_label ? r->o->home_label : "");
	jw_kint(&w, "guardPid", getppid());
	jw_kbool(&w, "privileged", r->o->privileged);
	jw_kbool(&w, "embedded", r->o->embedded);
	jw_kstr(&w, "spawner", spawn_link_state(&r->host.spawner));
	jw_kstr(&w, "proxy", proxy_link_state(&r->host.proxy));
	jw_kobj(&w, "violations");
	jw_kstr(&w, "state", audit_is_on(r) ? "enforced" : "unavailable");
	jw_kstr(&w, "source", "audit");
	violation_sources(r, &w);
	jw_obj_end(&w);
	jw_kobj(&w, "retention");
	jw_kstr(&w, "state", retention_clock_waits(&r->retention_clock) ? "waiting" : "ok");
	if (retention_clock_waits(&r->retention_clock)) {
		jw_kint(&w, "clockAheadMs", r->retention_clock.ahead_us / 1000);
		jw_kstr(&w, "why", "the clock differs from the time that has passed since the newest event");
		jw_kstr(&w, "fix", RETENTION_CLOCK_FIX);
	}
	jw_obj_end(&w);
}

/* Root gets its reply once the spawner has recorded what it authorised (root_grant.h). */
static bool delays_root_reply(void *host, int client)
{
	const struct host_ports *w = host;

	return root_grants_delay_reply(&w->grants, client);
}

static void on_grants_settled(void *ctx)
{
	const struct runtime *r = ctx;

	control_resume_replies(r->control);
}

static int32_t fleet_pid(void *ctx) { return ((const struct host_ports *)ctx)->fleet_pid; }

static void control_start(struct runtime *r)
{
	const struct control_options o = {
		.base = r->base,
		.store = r->store,
		.engine = r->engine,
		.methods = &control_methods,
		.changes = &r->changes,
		.retention = &r->retention,
		.screens = &r->screens,
		.config = &r->config,
		.listen_fd = GUARD_FD_LISTEN,
		.ctx = &r->host,
		.delays_root_reply = delays_root_reply,
		.started_real_us = clock_real_us(),
		.health = write_health,
		.fleet_pid = fleet_pid,
		.audit_state = r->o->audit_state,
		.limits = r->o->limits,
	};
	r->control = control_new(&o);
	r->host.grants.settled = on_grants_settled;
	r->host.grants.ctx = r;
}

/*
 * The store and the spool, and the parents of both, which are synced when the store is created. Below /proc: the
 * identity of peers, and the boot id; a Landlock domain cannot read the files of a process that require the right to
 * trace it. The cgroups: what commands use (tree_usage.h). Configuration and policy are read from descriptors that the
 * guard opened.
 */
static int enter_sandbox(struct err *e)
{
	fd_auto int store_parent = openat(GUARD_FD_STORE, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd_auto int spool_parent = openat(GUARD_FD_SPOOL, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct role_sandbox_path own[] = {
		{ ROLE_SANDBOX_WRITE, NULL, GUARD_FD_STORE }, { ROLE_SANDBOX_WRITE, NULL, GUARD_FD_SPOOL },
		{ ROLE_SANDBOX_READ, "/proc", -1 },           { ROLE_SANDBOX_LIST, NULL, store_parent },
		{ ROLE_SANDBOX_LIST, NULL, spool_parent },    { ROLE_SANDBOX_READ, "/sys/fs/cgroup", -1 },
	};

	return role_sandbox_enter(ROLE_SANDBOX_RUNTIME, own, countof(own), e);
}

static void start_timers(struct runtime *r)
{
	const struct timeval hour = { .tv_sec = RETENTION_S }, idle_check = { .tv_sec = IDLE_CHECK_S };

	r->retention_ev = event_new(r->base, -1, EV_PERSIST, on_retention, r);
	loop_add(r->retention_ev, &hour);
	event_active(r->retention_ev, EV_TIMEOUT, 0);
	if (r->o->embedded) {
		r->idle_ev = event_new(r->base, -1, EV_PERSIST, on_idle_check, r);
		loop_add(r->idle_ev, &idle_check);
	}
}

/*
 * The order matters:
 *
 * - the sandbox before any input is parsed, even the configuration
 * - recovery before clients, so that no request meets a process whose state is undecided
 * - the sweep before engine_resume: a run that starts is not in the store yet
 * - the policy before engine_resume: what that starts again has to be evaluated
 * - host_ports_listen after recovery: until then the links to guard and spawner are read synchronously
 */
static int runtime_set_up(struct runtime *r, struct err *e)
{
	if (enter_sandbox(e) < 0 || config_load(r, e) < 0 || store_start(r, e) < 0 ||
	    retention_clock_load(&r->retention_clock, r->store, e) < 0)
		return -1;
	read_boot_id(r->boot_id);
	r->base = event_base_new();
	if (!r->base)
		return err_set(e, ERR_INTERNAL, "no event loop");
	host_ports_init(&r->host, r->base, r->store, GUARD_FD_LINK, GUARD_FD_PEER, GUARD_FD_SPOOL,
			audit_is_on(r) ? GUARD_FD_AUDIT : -1);
	proxy_link_configure(&r->host.proxy, &r->config);
	r->host.stop = on_stop;
	r->host.reload = on_reload;
	r->host.ctx = r;
	private_paths_init(&r->private_paths, r->o->run_dir, r->o->state_dir, r->o->config_dir);
	for (size_t i = 0; i < r->config.nsecret_paths; i++)
		if (private_paths_add(&r->private_paths, r->config.secret_paths[i]) < 0)
			return err_set(e, ERR_INVALID, "config.json: secretPaths: at most %zu paths", i);
	engine_start(r);
	git_searches_init(&r->searches, r->base, r->engine, &r->host.spawner);
	r->host.searches = &r->searches;
	workspace_policies_init(&r->workspaces, r->base, r->engine, &r->host.spawner, &r->policy, !r->o->policy_file);
	r->host.workspaces = &r->workspaces;
	rule_writer_init(&r->rule_writer, r->base, r->engine, &r->host.spawner, &r->host.guard, &r->workspaces,
			 !r->o->policy_file);
	r->host.rule_writer = &r->rule_writer;
	cow_changes_init(&r->changes, r->store, r->engine, &r->host.spawner);
	r->changes.copies_budget = r->config.max_checkpoint_bytes_per_uid;
	r->host.changes = &r->changes;
	screens_init(&r->screens, r->base, r->store, r->engine, &r->host,
		     (struct screen_limits){ .lines = (unsigned)r->config.screen_scrollback_lines,
					     .bytes = r->config.screen_scrollback_bytes });
	r->host.screens = &r->screens;
	if (host_ports_recover(&r->host, e) < 0)
		return -1;
	cow_changes_sweep(&r->changes);
	policy_files_load(&r->policy, r->files, 0, r->engine);
	engine_resume(r->engine);
	r->trim_ev = event_new(r->base, -1, 0, on_trim, r);
	r->store_ev = event_new(r->base, store_dispatch_fd(r->store), EV_READ | EV_PERSIST, on_store, r);
	loop_add(r->store_ev, NULL);
	control_start(r);
	r->screens.attended = control_displays_terminal;
	r->screens.attended_ctx = r->control;
	host_ports_listen(&r->host);
	warn_of_audit(r);
	start_timers(r);
	return 0;
}

/*
 * The store is stopped first: with a failing disk it may have pending callbacks, which refer to objects that are freed
 * here. Then from the top down: control, whose calls refer to everything else; the parts that refer to the engine; the
 * engine; the host. The store is closed last, after everything that reads it.
 */
static void runtime_tear_down(struct runtime *r)
{
	store_stop(r->store);
	r->host.grants.settled = NULL;
	control_free(r->control);
	store_flush(r->store);
	if (r->host.workspaces) {
		rule_writer_done(&r->rule_writer);
		workspace_policies_done(&r->workspaces);
		git_searches_done(&r->searches);
	}
	if (r->host.changes)
		cow_changes_done(&r->changes);
	if (r->host.screens)
		screens_done(&r->screens);
	r->host.screens = NULL;
	engine_free(r->engine);
	free(r->webhook);
	free(r->model);
	r->engine = NULL;
	policy_files_done(&r->policy);
	private_paths_done(&r->private_paths);
	if (r->base)
		host_ports_done(&r->host);
	if (r->store_ev)
		event_free(r->store_ev);
	if (r->idle_ev)
		event_free(r->idle_ev);
	if (r->retention_ev)
		event_free(r->retention_ev);
	if (r->trim_ev)
		event_free(r->trim_ev);
	store_close(r->store);
	if (r->base)
		event_base_free(r->base);
}

/* Errors that a restart cannot fix: the guard must not retry. */
static bool is_permanent(const struct err *e)
{
	return e->code == ERR_INVALID || e->code == ERR_CORRUPT || e->code == ERR_CONFLICT || e->code == ERR_STATE;
}

int runtime_main(const struct runtime_options *o)
{
	struct runtime r = { .o = o };
	struct err e = ERR_INIT;

	find_files(&r);
	signal(SIGPIPE, SIG_IGN);
	fd_raise_nofile();
	/*
	 * Keep freed memory for the next command: returning it to the kernel each time costs more than it saves. The
	 * buffers of a read (128 to 256 KiB, store_output_read to the reply) are part of it: as mappings of their own
	 * they would get new pages for each read, and under memory pressure each new page may wait for the disk.
	 */
	mallopt(M_TRIM_THRESHOLD, HEAP_KEPT);
	mallopt(M_TOP_PAD, HEAP_KEPT / 4);
	mallopt(M_MMAP_THRESHOLD, HEAP_KEPT / 2);
	if (runtime_set_up(&r, &e) < 0) {
		log_error("%s", e.message);
		return is_permanent(&e) ? GUARD_EXIT_CONFIG : 1;
	}
	guard_link_ready(&r.host.guard, r.config.stop_grace_ms);
	if (r.stop_wanted)
		on_stop(&r);
	/* Without a loop nothing can be shut down properly: another runtime takes over. */
	if (loop_run(r.base) < 0 || !event_base_got_exit(r.base))
		return 1;
	runtime_tear_down(&r);
	return GUARD_EXIT_DONE;
}
