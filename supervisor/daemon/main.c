/*
 * bailiffd: one program, several processes. Started by a user or the system it becomes the guard, which starts the same
 * program again with --role, or bailiff-spawner instead. This file only connects the parts: options, home, identity,
 * and then guard_run or a role.
 */

#include "runtime/base/buf.h"
#include "runtime/base/build.h"
#include "runtime/base/daemon_exit.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/find_program.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/capability.h"
#include "sandbox/cgroup.h"
#include "sandbox/kernel.h"
#include "supervisor/common/options.h"
#include "supervisor/common/process_title.h"
#include "supervisor/daemon/daemon_home.h"
#include "supervisor/daemon/fleet_part.h"
#include "supervisor/daemon/placement.h"
#include "supervisor/daemon/version.h"
#include "supervisor/guard/guard.h"
#include "supervisor/proxy/proxy.h"
#include "supervisor/runtime/runtime.h"
#include "supervisor/spawner/prebuilt.h"
#include "supervisor/spawner/role.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNTIME_UID 64613 /* if there is no user "bailiff" */
#define PROXY_UID 64614   /* a uid of its own: a compromised proxy has no other process's rights */
#define ARGS_MAX 56
#define AUDIT_CHECK_MS 30000
#define AUDIT_TRIAL_MS 5000
#define HOST_POLICY "/etc/bailiff/policy.json"

struct daemon {
	struct options o;
	struct process_title title;
	struct daemon_home home;
	struct daemon_home_options home_options;
	bool privileged;
	uid_t runtime_uid;
	char runtime_user[16]; /* the same as text */
	gid_t runtime_gid;
	char tag[DAEMON_HOME_TAG_MAX];
	char owner[16];
	char exe[PATH_MAX];
	char tool[PATH_MAX]; /* bailiff-tool; "" = not installed */
	int spawner_fd;      /* bailiff-spawner; −1 = this program is used */
	char otlp[PATH_MAX]; /* bailiff-otlp; "" = nothing is exported */
	char otlp_cursor[PATH_MAX];
	struct fleet_part fleet;
	char real[3][PATH_MAX]; /* the home's directories: run, state, config */
	char policy[PATH_MAX];
	struct placement placement; /* of the cgroups */
	int audit_fd;               /* −1 = none, or passed on by the program before an upgrade */
	struct guard_audit audit;
};

static int print_error(const struct err *e, int status)
{
	fprintf(stderr, "bailiffd: %s%s%s\n", e->field, e->field[0] ? ": " : "", e->message);
	return status;
}

/* An argument vector; the number of arguments is bounded by the code. */
struct args {
	char *v[ARGS_MAX];
	size_t n;
};

static void args_add(struct args *a, const char *word)
{
	if (a->n + 1 >= ARGS_MAX)
		abort();
	a->v[a->n++] = (char *)word;
}

/* An option with its value, if it has one; "" and NULL stand for none. */
static void args_option(struct args *a, const char *name, const char *value)
{
	if (!value || !value[0])
		return;
	args_add(a, name);
	args_add(a, value);
}

static void args_flag(struct args *a, const char *name, bool on)
{
	if (on)
		args_add(a, name);
}

static void args_log(struct args *a, const struct options *o)
{
	args_flag(a, "--verbose", o->verbose);
	args_option(a, "--log-format", o->log_format);
}

static void setup_log(const char *who, const struct options *o)
{
	log_setup(who, o->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
		  o->log_format && strcmp(o->log_format, "json") == 0);
}

/* ---- the roles ---- */

/* In the child, after exec: the guard passed everything by options and fixed descriptors (guard_msg.h). */
static int role_runtime(const struct options *o, struct process_title *t)
{
	struct err e = ERR_INIT;
	uint64_t owner = 0, audit_since = 0;
	process_title_set(t, "bailiffd: runtime");
	setup_log("bailiffd runtime", o);
	if (o->owner_uid && options_number("owner-uid", o->owner_uid, UINT32_MAX, &owner, &e) < 0)
		return print_error(&e, DAEMON_EXIT_USAGE);
	if (o->audit_since && options_number("audit-since", o->audit_since, UINT64_MAX, &audit_since, &e) < 0)
		return print_error(&e, DAEMON_EXIT_USAGE);
	const struct runtime_options r = {
		.embedded = o->embedded,
		.verbose = o->verbose,
		.privileged = o->privileged,
		.owner_uid = (uint32_t)owner,
		.home_label = o->home_label ? o->home_label : "",
		.run_dir = o->run_dir,
		.state_dir = o->state_dir,
		.config_dir = o->config_dir,
		.tool_program = o->tool_program,
		.policy_file = o->policy_file,
		.audit_state = o->audit_state ? o->audit_state : "not requested",
		.audit_since_ns = audit_since,
		.limits = o->limits,
	};
	return runtime_main(&r);
}

/* ---- the guard ---- */

/* What the options say, before anything is opened. Sets d->audit.check_ms and the socket's mode. */
static int check_options(struct daemon *d, struct err *e)
{
	const struct options *o = &d->o;
	if (o->log_format && strcmp(o->log_format, "json") != 0 && strcmp(o->log_format, "text") != 0)
		return err_set(e, ERR_INVALID, "--log-format: '%s' is neither json nor text", o->log_format);
	if (o->audit && strcmp(o->audit, "auto") != 0 && strcmp(o->audit, "off") != 0)
		return err_set(e, ERR_INVALID, "--audit: '%s' is neither auto nor off", o->audit);
	uint64_t zygotes, check_ms = AUDIT_CHECK_MS;
	if (o->audit_check_ms && options_number("audit-check-ms", o->audit_check_ms, INT32_MAX, &check_ms, e) < 0)
		return -1;
	d->audit.check_ms = d->privileged && !(o->audit && strcmp(o->audit, "off") == 0) ? check_ms : 0;
	if (o->zygotes && options_number("zygotes", o->zygotes, PREBUILT_WANTED_MAX, &zygotes, e) < 0)
		return -1;
	if (o->socket_mode) {
		if (strcmp(o->socket_mode, "0600") != 0 && strcmp(o->socket_mode, "0666") != 0)
			return err_set(e, ERR_INVALID, "--socket-mode: '%s' is neither 0600 nor 0666", o->socket_mode);
		d->home_options.socket_mode = (mode_t)strtoul(o->socket_mode, NULL, 8);
	}
	if (o->user && !d->privileged)
		return err_set(e, ERR_INVALID, "--user: only root can give the runtime another user");
	return 0;
}

/* The runtime's user when the guard is root. */
static int find_identity(struct daemon *d, struct err *e)
{
	const struct passwd *pw = getpwnam(d->o.user ? d->o.user : "bailiff");
	uint64_t uid = RUNTIME_UID;
	d->runtime_uid = d->runtime_gid = RUNTIME_UID;
	if (pw) {
		d->runtime_uid = pw->pw_uid;
		d->runtime_gid = pw->pw_gid;
	} else if (d->o.user) {
		if (options_number("user", d->o.user, UINT32_MAX - 1, &uid, NULL) < 0)
			return err_set(e, ERR_INVALID, "--user: there is no user '%s'", d->o.user);
		pw = getpwuid((uid_t)uid);
		d->runtime_uid = (uid_t)uid;
		d->runtime_gid = pw ? pw->pw_gid : (gid_t)uid;
	}
	if (d->runtime_uid == 0)
		return err_set(e, ERR_INVALID, "--user: the runtime must not be root");
	d->home_options.give = true;
	snprintf(d->runtime_user, sizeof d->runtime_user, "%u", (unsigned)d->runtime_uid);
	d->home_options.uid = d->runtime_uid;
	d->home_options.gid = d->runtime_gid;
	return 0;
}

/* bailiff's other programs: next to this one (a build), or in libexec (an installation). "" = not installed. */
static void find_part(const char *name, char ret[PATH_MAX])
{
	mem_auto char *installed = mem_printf("../libexec/bailiff/%s", name);
	mem_auto char *path = find_installed_program((const char *const[]){ name, installed }, 2);

	if (!path || !realpath(path, ret))
		ret[0] = 0;
}

/* The exporter of spans and metrics, if an endpoint is configured. */
static void find_otlp(struct daemon *d)
{
	static const char *const endpoints[] = { "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
						 "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT" };
	const char *off = getenv("OTEL_SDK_DISABLED"), *given = NULL;
	for (size_t i = 0; i < countof(endpoints) && !given; i++) {
		const char *value = getenv(endpoints[i]);
		given = value && value[0] ? endpoints[i] : NULL;
	}
	if (!given || (off && strcasecmp(off, "true") == 0))
		return;
	find_part("bailiff-otlp", d->otlp);
	if (!d->otlp[0])
		log_warning("%s is set, but bailiff-otlp is not installed next to this program: nothing is exported",
			    given);
}

/* Paths must keep their meaning when the working directory changes or the program's file is replaced. */
static int find_names(struct daemon *d, struct daemon_paths *ret, struct err *e)
{
	if (daemon_paths_find(d->o.home, geteuid(), ret, e) < 0)
		return -1;
	if (d->o.config) {
		char *real = realpath(d->o.config, NULL);
		if (!real || access(real, R_OK) < 0)
			return err_sys(e, errno, "--config: open '%s'", d->o.config);
		d->o.config = real;
	}
	if (d->o.host_policy) {
		char *real = realpath(d->o.host_policy, NULL);
		if (!real)
			return err_sys(e, errno, "--host-policy: open '%s'", d->o.host_policy);
		d->o.host_policy = real;
	}
	d->home_options.config = d->o.config;
	ssize_t n = readlink("/proc/self/exe", d->exe, sizeof d->exe - 1);
	d->exe[n > 0 ? n : 0] = 0;
	find_part("bailiff-tool", d->tool);
	/* Kept open: after an installation replaces the file, its new version may use another protocol than this guard.
	 */
	char spawner[PATH_MAX];
	find_part("bailiff-spawner", spawner);
	d->spawner_fd = spawner[0] ? open(spawner, O_PATH | O_CLOEXEC) : -1;
	find_otlp(d);
	snprintf(d->owner, sizeof d->owner, "%u", (unsigned)getuid());
	return 0;
}

/* A user's own daemon, with its policy next to its configuration. The system daemon's policy is the host's, and each
 * peer has one in its home directory. */
static bool is_own(const struct daemon *d) { return d->home.paths.kind != DAEMON_PATHS_SYSTEM; }

static void placement_args(const struct daemon *d, struct args *a)
{
	const struct cgroup_base *b = &d->placement.base;
	args_option(a, "--cgroup-base", b->path);
	args_option(a, "--cgroup-why", b->why);
	args_option(a, "--cgroup-fix", b->fix);
}

/* Directories by their real paths: sandboxes hide them. */
static void folder_args(const struct daemon *d, struct args *a)
{
	args_option(a, "--run-dir", d->real[0]);
	args_option(a, "--state-dir", d->real[1]);
	args_option(a, "--config-dir", d->real[2]);
	args_option(a, "--policy-file", is_own(d) ? d->policy : NULL);
	args_option(a, "--audit-state", d->audit.state);
}

static void runtime_args(const struct daemon *d, struct args *a)
{
	args_add(a, "bailiffd: runtime");
	args_option(a, "--role", "runtime");
	args_option(a, "--home-label", d->home.paths.label);
	folder_args(d, a);
	args_option(a, "--owner-uid", d->owner);
	args_option(a, "--tool-program", d->tool);
	args_flag(a, "--privileged", d->privileged);
	args_flag(a, "--embedded", d->o.embedded);
	args_option(a, "--audit-since", d->audit.since);
	args_option(a, "--limits", d->placement.limits);
	args_log(a, &d->o);
}

static void spawner_args(const struct daemon *d, struct args *a)
{
	args_add(a, "bailiffd: spawner");
	args_option(a, "--role", "spawner");
	args_option(a, "--cgroup-tag", d->tag);
	placement_args(d, a);
	folder_args(d, a);
	args_option(a, "--user", d->privileged ? d->runtime_user : NULL);
	/* Unconfined, a root daemon would run any client's commands as they are: the administrator must opt in. */
	args_flag(a, "--allow-host", !d->privileged || d->o.allow_host);
	args_option(a, "--zygotes", d->o.zygotes);
	args_log(a, &d->o);
}

/*
 * Options for the next version of this program in the same process. It must accept every option listed here. Options
 * that only matter for opening the home are missing (--socket-mode, --foreground): the socket and the log exist.
 */
static void upgrade_args(const struct daemon *d, struct args *a)
{
	args_add(a, "bailiffd: guard");
	args_option(a, "--home", d->home.paths.kind == DAEMON_PATHS_HOME ? d->home.paths.run : NULL);
	args_option(a, "--config", d->o.config);
	args_option(a, "--user", d->o.user);
	args_flag(a, "--allow-host", d->o.allow_host);
	args_option(a, "--host-policy", d->o.host_policy);
	args_option(a, "--zygotes", d->o.zygotes);
	args_option(a, "--audit", d->o.audit);
	args_option(a, "--audit-check-ms", d->o.audit_check_ms);
	args_option(a, "--fleet", d->o.fleet);
	args_option(a, "--fleet-creds", d->o.fleet_creds);
	args_option(a, "--fleet-tls-ca", d->o.fleet_tls_ca);
	args_option(a, "--fleet-node", d->o.fleet_node);
	args_option(a, "--fleet-user", d->o.fleet_user);
	args_option(a, "--label", d->o.label);
	args_option(a, "--audit-state", d->audit.state);
	args_option(a, "--audit-since", d->audit.since);
	placement_args(d, a);
	args_option(a, "--limits", d->placement.limits);
	args_flag(a, "--embedded", d->o.embedded);
	args_log(a, &d->o);
}

/* The paths that are handed to the parts. */
static void resolve_paths(struct daemon *d)
{
	const char *const given[] = { d->home.paths.run, d->home.paths.state, d->home.paths.config };
	for (size_t i = 0; i < countof(given); i++) {
		if (!realpath(given[i], d->real[i]))
			snprintf(d->real[i], sizeof d->real[i], "%s", given[i]);
	}
	snprintf(d->otlp_cursor, sizeof d->otlp_cursor, "%.*s/otlp.cursor", PATH_MAX - 32, d->home.paths.state);
	snprintf(d->policy, sizeof d->policy, "%.*s/policy.json", PATH_MAX - 32, d->home.paths.config);
}

static int run_guard(struct daemon *d, int ready_fd, int resume_fd)
{
	struct args runtime = { 0 }, spawner = { 0 }, proxy = { 0 }, otlp = { 0 }, upgraded = { 0 };
	resolve_paths(d);
	char fleet_program[PATH_MAX];
	struct err e = ERR_INIT;
	find_part("bailiff-fleet", fleet_program);
	if (fleet_part_find(&d->o, d->home.config_file, d->privileged, fleet_program, &d->fleet, &e) < 0) {
		daemon_home_clean_up(&d->home);
		return print_error(&e, DAEMON_EXIT_USAGE);
	}
	runtime_args(d, &runtime);
	spawner_args(d, &spawner);
	args_add(&proxy, "bailiffd: proxy");
	args_option(&proxy, "--role", "proxy");
	args_log(&proxy, &d->o);
	args_add(&otlp, "bailiffd: otlp");
	args_add(&otlp, d->o.log_format ? d->o.log_format : "text");
	upgrade_args(d, &upgraded);
	/* A user's daemon reads the machine's policy in addition to its own; the system daemon's own is the machine's.
	 */
	const char *host_policy = d->o.host_policy ? d->o.host_policy : is_own(d) ? HOST_POLICY : d->policy;
	const struct guard_options g = {
		.argv = { [GUARD_RUNTIME] = runtime.v, [GUARD_SPAWNER] = spawner.v, [GUARD_PROXY] = proxy.v,
			  [GUARD_OTLP] = otlp.v, [GUARD_FLEET] = d->fleet.argv },
		.spawner_fd = d->spawner_fd,
		.otlp_exe = d->otlp[0] ? d->otlp : NULL,
		.otlp_cursor = d->otlp_cursor,
		.fleet_exe = d->fleet.program[0] ? d->fleet.program : NULL,
		.fleet_uid = d->fleet.uid,
		.fleet_gid = d->fleet.gid,
		.fleet_groups = d->fleet.groups,
		.nfleet_groups = d->fleet.ngroups,
		.socket = d->home.socket,
		.listen_fd = d->home.listen_fd,
		.store_fd = d->home.store_fd,
		.spool_fd = d->home.spool_fd,
		.cow_fd = d->home.cow_fd,
		.lock_fd = d->home.lock_fd,
		.audit_fd = d->audit_fd,
		.audit = &d->audit,
		.ready_fd = ready_fd,
		.file = {
			[GUARD_FILE_CONFIG] = d->home.config_file,
			[GUARD_FILE_POLICY] = is_own(d) ? d->policy : NULL,
			[GUARD_FILE_HOST_POLICY] = host_policy,
		},
		.drop = d->privileged,
		.runtime_uid = d->runtime_uid,
		.runtime_gid = d->runtime_gid,
		.proxy_uid = d->runtime_uid == PROXY_UID ? PROXY_UID + 1 : PROXY_UID,
		.proxy_gid = d->runtime_uid == PROXY_UID ? PROXY_UID + 1 : PROXY_UID,
		.upgrade_exe = d->exe[0] ? d->exe : NULL,
		.upgrade_argv = upgraded.v,
		.resume_fd = resume_fd,
	};
	int status = guard_run(&g);
	/* Prebuilt sandboxes exit with the guard's other children; the spawner can no longer reap them. */
	if (d->placement.base.path[0])
		cgroup_kill_leftovers(d->placement.base.path, d->tag);
	daemon_home_clean_up(&d->home);
	return status;
}

/* The guard owns the audit rules, because it lives as long as the sandboxes. */
static void take_audit(struct daemon *d)
{
	struct err e = ERR_INIT;
	const char *why = NULL;
	if (!d->privileged)
		why = "requires root: only a daemon with CAP_AUDIT_CONTROL and CAP_AUDIT_READ can read audit records";
	else if (d->o.audit && strcmp(d->o.audit, "off") == 0)
		why = "switched off by --audit off";
	else if (audit_take(AUDIT_TRIAL_MS, &d->audit_fd, &e) < 0)
		why = e.message;
	snprintf(d->audit.state, sizeof d->audit.state, "%s", why ? why : "on");
	snprintf(d->audit.since, sizeof d->audit.since, "0");
}

/* The same process after an upgrade: everything exists already. */
static int resume_guard(struct daemon *d)
{
	struct err e = ERR_INIT;
	uint64_t fd;
	if (options_number("resume", d->o.resume, INT32_MAX, &fd, &e) < 0 ||
	    daemon_home_open_dirs(&d->home, &d->home_options, &e) < 0)
		return print_error(&e, DAEMON_EXIT_USAGE);
	snprintf(d->audit.state, sizeof d->audit.state, "%s", d->o.audit_state ? d->o.audit_state : "not requested");
	snprintf(d->audit.since, sizeof d->audit.since, "%s", d->o.audit_since ? d->o.audit_since : "0");
	process_title_set(&d->title, "bailiffd: guard");
	daemon_home_tag(&d->home, d->tag);
	placement_resume(&d->placement, &(struct placement_arguments){ d->o.cgroup_base, d->o.cgroup_why,
								       d->o.cgroup_fix, d->o.limits });
	log_info("upgraded to version %s", BAILIFF_VERSION);
	return run_guard(d, -1, (int)fd);
}

/* ---- the background ---- */

/* End of file without a byte: the daemon exited, and what it logged since `from` has the reason. */
static _Noreturn void wait_until_ready(pid_t child, int ready_fd, int log_fd, off_t from)
{
	char byte, text[8192];
	ssize_t n;
	do
		n = read(ready_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		_exit(0);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
	n = pread(log_fd, text, sizeof text, from);
	if (n > 0)
		fd_write_all(STDERR_FILENO, text, (size_t)n);
	_exit(1);
}

/*
 * Continues in a child with its own session, stdin and stdout at /dev/null and stderr at log_fd. A byte written to
 * *ret_ready_fd reports that the daemon serves. The invoked process does not return: it waits for that byte and exits
 * with 0; if the child ends without it, it prints what was logged and exits with 1.
 */
static int daemonize(int log_fd, int *ret_ready_fd, struct err *e)
{
	int ready[2];
	off_t from = lseek(log_fd, 0, SEEK_END);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return err_sys(e, errno, "make a pipe");
	pid_t pid = fork();
	if (pid < 0) {
		close(ready[0]);
		close(ready[1]);
		return err_sys(e, errno, "fork");
	}
	if (pid > 0) {
		close(ready[1]);
		wait_until_ready(pid, ready[0], log_fd, from);
	}
	close(ready[0]);
	setsid();
	fd_auto int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(log_fd, 2) < 0 || chdir("/") < 0)
		return err_sys(e, errno, "detach from the terminal");
	*ret_ready_fd = ready[1];
	return 0;
}

/* ---- start ---- */

/* The order matters: the lock precedes the socket (a stale one is replaced), and the pid is that of the daemonized
 * child. */
static int begin_guard(struct daemon *d)
{
	struct err e = ERR_INIT;
	fd_auto int log_fd = -1;
	int ready_fd = -1;
	pid_t starter = getpid();
	if (kernel_check(&e) < 0)
		return print_error(&e, DAEMON_EXIT_KERNEL);
	if (daemon_home_lock(&d->home, &d->home_options, &e) < 0 ||
	    daemon_home_listen(&d->home, &d->home_options, &e) < 0)
		return print_error(&e, 1);
	if (!d->o.foreground) {
		log_fd = daemon_home_open_log(&d->home, &e);
		if (log_fd < 0 || daemonize(log_fd, &ready_fd, &e) < 0)
			return print_error(&e, 1);
		setup_log("bailiffd guard", &d->o); /* stderr is a file now */
	}
	if (daemon_home_write_pid(&d->home, &e) < 0)
		return print_error(&e, 1);
	process_title_set(&d->title, "bailiffd: guard");
	daemon_home_tag(&d->home, d->tag);
	placement_take(&d->placement, d->tag,
		       getppid() == starter ? starter : 0); /* the starter still waits in daemonize() */
	if (d->privileged) { /* protects against the OOM killer; the inits of sandboxes reset it */
		fd_auto int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			(void)!write(fd, "-900", 4);
	}
	take_audit(d);
	return run_guard(d, ready_fd, -1);
}

static int run_daemon(struct daemon *d)
{
	struct err e = ERR_INIT;
	struct daemon_paths p;
	d->privileged = geteuid() == 0;
	d->audit_fd = -1;
	setup_log("bailiffd guard", &d->o);
	/* A root daemon gives its files and its runtime to another user; in a container it may lack the privileges. */
	if (d->privileged &&
	    (!capability_has(CAP_CHOWN) || !capability_has(CAP_SETUID) || !capability_has(CAP_SETGID))) {
		err_set(&e, ERR_NOT_ALLOWED,
			"root needs CAP_CHOWN, CAP_SETUID and CAP_SETGID here: add them to the container (--cap-add), "
			"or run as a plain user");
		return print_error(&e, 1);
	}
	if (check_options(d, &e) < 0 || (d->privileged && find_identity(d, &e) < 0) || find_names(d, &p, &e) < 0)
		return print_error(&e, DAEMON_EXIT_USAGE);
	umask(077);
	daemon_home_init(&d->home, &p);
	if (d->o.restore)
		return daemon_home_lock(&d->home, &d->home_options, &e) < 0 ||
				       daemon_home_restore(&d->home, &d->home_options, d->o.restore, &e) < 0
			       ? print_error(&e, 1)
			       : 0;
	return d->o.resume ? resume_guard(d) : begin_guard(d);
}

/* The parent may have left standard descriptors closed or signals ignored. */
static void clean_inheritance(void)
{
	int fd;
	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
		continue;
	if (fd > STDERR_FILENO)
		close(fd);
	const struct sigaction plain = { .sa_handler = SIG_DFL };
	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &plain, NULL);
}

static int print_version(const struct options *o)
{
	buf_auto struct buf json = BUF_INIT, text = BUF_INIT;
	version_json(&json);
	build_text("bailiffd", jval_of(json.data, json.len), &text);
	buf_byte(&json, '\n');
	const struct buf *out = o->json ? &json : &text;
	return fd_write_all(STDOUT_FILENO, out->data, out->len) < 0;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct err e = ERR_INIT;
	build = BUILD_STAMP;
	clean_inheritance();
	process_title_init(&d.title, argc, argv);
	if (options_parse(argc, argv, &d.o, &e) < 0)
		return print_error(&e, DAEMON_EXIT_USAGE);
	if (d.o.help) {
		options_help(stdout);
		return 0;
	}
	if (d.o.version)
		return print_version(&d.o);
	if (!d.o.role)
		return run_daemon(&d);
	if (strcmp(d.o.role, "runtime") == 0)
		return role_runtime(&d.o, &d.title);
	if (strcmp(d.o.role, "spawner") == 0)
		return spawner_role(&d.o, &d.title);
	if (strcmp(d.o.role, "proxy") == 0) {
		process_title_set(&d.title, "bailiffd: proxy");
		setup_log("bailiffd proxy", &d.o);
		return proxy_main();
	}
	fprintf(stderr, "bailiffd: --role: there is no role '%s'\n", d.o.role);
	return DAEMON_EXIT_USAGE;
}
