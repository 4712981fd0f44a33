/*
 * `fleet dev`: a nats-server on loopback and a few nodes, each a daemon with a home of its own, in one temporary
 * folder. The server admits two nkeys only, the client's and the nodes', so that other users of the machine cannot use
 * it. Runs in the foreground; when it ends, the processes are ended, too, and the folder is removed. If it is killed,
 * the kernel ends its children (PR_SET_PDEATHSIG); only the folder stays.
 */

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/daemon_program.h"
#include "supervisor/fleet/client/client.h"
#include "supervisor/fleet/client/settings.h"
#include "supervisor/fleet/fleet_port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES_MAX 16u
#define READY_MS 60000u
#define STOP_MS 20000u
#define POLL_MS 20

static volatile sig_atomic_t stop_requested;

struct dev {
	struct cli *cli;
	char *dir, *url;
	char user_key[FLEET_KEY_TEXT], node_key[FLEET_KEY_TEXT];
	size_t n; /* nodes */
	pid_t server, node[NODES_MAX];
};

static void on_signal(int sig) { stop_requested = 1; }

/* ---- files ---- */

static int write_file(const char *path, const char *text, struct err *e)
{
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 || fd_write_all(fd, text, strlen(text)) < 0 ? err_sys(e, errno, "write %s", path) : 0;
}

static int write_key(const struct dev *d, const char *name, char ret_key[FLEET_KEY_TEXT], struct err *e)
{
	mem_auto char *path = mem_printf("%s/%s", d->dir, name);
	char seed[FLEET_SEED_TEXT];
	int r = fleet_key_new(seed, ret_key, e);

	mem_auto char *line = mem_printf("%s\n", r == 0 ? seed : "");
	if (r == 0)
		r = write_file(path, line, e);
	explicit_bzero(seed, sizeof(seed));
	explicit_bzero(line, strlen(line));
	return r;
}

static int write_server_config(const struct dev *d, struct err *e)
{
	mem_auto char *path = mem_printf("%s/nats.conf", d->dir);
	mem_auto char *text = mem_printf(
		"host: \"127.0.0.1\"\nport: -1\nports_file_dir: \"%s\"\nlog_file: \"%s/nats.log\"\n"
		"jetstream { store_dir: \"%s/jetstream\", max_memory_store: 64MB, max_file_store: 4GB }\n"
		"authorization { users: [ { nkey: %s }, { nkey: %s } ] }\n",
		d->dir, d->dir, d->dir, d->user_key, d->node_key);

	return write_file(path, text, e);
}

/* The node's configuration: who may submit, and as whom root's node runs the tasks. */
static int write_node_config(const struct dev *d, const char *home, const char *work, struct err *e)
{
	mem_auto char *path = mem_printf("%s/config.json", home);
	const struct passwd *user = getpwuid(getuid());
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	jw_obj(&w);
	if (getuid() == 0)
		jw_kstr(&w, "fleet.user", user ? user->pw_name : "root");
	jw_kstr(&w, "fleet.workDir", work);
	jw_karr(&w, "fleet.submitters");
	jw_obj(&w);
	jw_kstr(&w, "key", d->user_key);
	jw_kstr(&w, "name", user ? user->pw_name : "dev");
	jw_obj_end(&w);
	jw_arr_end(&w);
	jw_obj_end(&w);
	return write_file(path, buf_cstr(&text), e);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)remove(path);
	return 0;
}

/* ---- processes ---- */

/* Starts a program in a session of its own, so that Ctrl-C reaches only us, with its output in LOG. */
static pid_t start(char *const *argv, const char *log, struct err *e)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		return err_sys(e, errno, "start %s", argv[0]);
	if (pid > 0)
		return pid;
	int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600),
	    in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGPIPE, SIG_DFL);
	if (getppid() != parent || in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(127);
	fd_close_range(3, ~0u);
	execvp(argv[0], argv);
	dprintf(2, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* TERM, then KILL if it does not end in time. */
static void stop(pid_t *pid)
{
	const uint64_t until = clock_boot_ms() + STOP_MS;

	if (*pid <= 0)
		return;
	kill(*pid, SIGTERM);
	while (waitpid(*pid, NULL, WNOHANG) == 0) {
		if (clock_boot_ms() > until)
			kill(*pid, SIGKILL);
		poll(NULL, 0, POLL_MS);
	}
	*pid = 0;
}

/* In PATH, and where Debian installs it, which is not in the PATH of plain users. NULL: nowhere. */
static char *find_server(void)
{
	const char *path = getenv("PATH");
	mem_auto char *list = mem_printf("%s:/usr/local/sbin:/usr/sbin", path ? path : "/usr/bin");

	for (char *at = list, *next; at; at = next) {
		if ((next = strchr(at, ':')))
			*next++ = 0;
		char *program = mem_printf("%s/nats-server", at);
		if (at[0] == '/' && access(program, X_OK) == 0)
			return program;
		free(program);
	}
	return NULL;
}

static int start_server(struct dev *d, struct err *e)
{
	mem_auto char *program = find_server();
	mem_auto char *config = mem_printf("%s/nats.conf", d->dir), *log = mem_printf("%s/nats.out", d->dir);
	char *argv[] = { program, (char *)"-c", config, NULL };

	if (!program)
		return err_set(e, ERR_NOT_FOUND, "nats-server is not installed (Debian: apt-get install nats-server)");
	return (d->server = start(argv, log, e)) < 0 ? -1 : 0;
}

static int start_node(struct dev *d, size_t i, struct err *e)
{
	mem_auto char *home = mem_printf("%s/node%zu", d->dir, i + 1), *name = mem_printf("dev-%zu", i + 1);
	mem_auto char *creds = mem_printf("%s/node.seed", d->dir), *log = mem_printf("%s/log", home);
	mem_auto char *program = daemon_program_path(), *label = mem_printf("node=%s", name);
	char *argv[] = { program,
			 (char *)"--foreground",
			 (char *)"--home",
			 home,
			 (char *)"--audit",
			 (char *)"off",
			 (char *)"--fleet",
			 d->url,
			 (char *)"--fleet-creds",
			 creds,
			 (char *)"--fleet-node",
			 name,
			 (char *)"--label",
			 label,
			 NULL };

	mem_auto char *work = mem_printf("%s/work%zu", d->dir, i + 1);
	if (mkdir(home, 0700) < 0 || mkdir(work, 0700) < 0)
		return err_sys(e, errno, "create the folders of %s", name);
	if (write_node_config(d, home, work, e) < 0)
		return -1;
	return (d->node[i] = start(argv, log, e)) < 0 ? -1 : 0;
}

/* ---- waiting until everything answers ---- */

static void print_log(const char *path)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[4096];
	off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	ssize_t n = fd < 0 ? 0 : fd_pread_all(fd, piece, sizeof(piece) - 1, size > 2048 ? (uint64_t)size - 2048 : 0);

	if (n <= 0)
		return;
	piece[n] = 0;
	for (char *line = piece, *end; *line; line = end) {
		end = line + strcspn(line, "\n");
		if (*end)
			*end++ = 0;
		cli_hint("%s", line);
	}
}

/* The address in the file that the server writes when it listens: {"nats":["nats://127.0.0.1:PORT"]}. */
static char *read_address(const struct dev *d)
{
	mem_auto char *path = mem_printf("%s/nats-server_%ld.ports", d->dir, (long)d->server);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[4096];
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, sizeof(text));
	struct jiter it = jiter_on(jval_get(jval_of(text, n > 0 ? (size_t)n : 0), "nats"));

	return n > 0 && jiter_next(&it) ? jval_strdup(it.value) : NULL;
}

/* Whether the process still runs; its end is reported with the end of its log. */
static bool check_running(pid_t *pid, const char *name, const char *log)
{
	int status;

	if (*pid > 0 && waitpid(*pid, &status, WNOHANG) == 0)
		return true;
	if (*pid > 0) {
		*pid = 0;
		if (WIFSIGNALED(status))
			cli_error("fleet dev: %s was ended by signal %d", name, WTERMSIG(status));
		else
			cli_error("fleet dev: %s ended with status %d", name, WEXITSTATUS(status));
		print_log(log);
	}
	return false;
}

static bool is_server_running(struct dev *d)
{
	mem_auto char *log = mem_printf("%s/nats.out", d->dir);

	return check_running(&d->server, "nats-server", log);
}

/* 0, or the exit status. */
static int wait_for_server(struct dev *d)
{
	const uint64_t until = clock_boot_ms() + READY_MS;

	while (!stop_requested && !(d->url = read_address(d))) {
		if (!is_server_running(d))
			return EXIT_FAILED;
		if (clock_boot_ms() > until) {
			cli_error("fleet dev: nats-server did not start to listen");
			return EXIT_FAILED;
		}
		poll(NULL, 0, POLL_MS);
	}
	return 0;
}

static void count_node(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	(*(size_t *)ctx)++;
}

static bool are_nodes_running(struct dev *d)
{
	bool all = true;

	for (size_t i = 0; i < d->n; i++) {
		mem_auto char *log = mem_printf("%s/node%zu/log", d->dir, i + 1),
			      *name = mem_printf("node dev-%zu", i + 1);

		all &= check_running(&d->node[i], name, log);
	}
	return all;
}

/* A node is ready when it has reported itself. 0, or the exit status. */
static int wait_for_nodes(struct dev *d)
{
	mem_auto char *seed = mem_printf("%s/client.seed", d->dir);
	const struct fleet_nats_options o = { .url = d->url, .name = "bailiff fleet dev", .creds = seed };
	const uint64_t until = clock_boot_ms() + READY_MS;
	struct fleet_port *port = NULL;
	struct err e = ERR_INIT;
	int status = 0;

	if (fleet_nats_new(&o, &port, &e) < 0)
		return cli_fail(d->cli, EXIT_FAILED, &e, "fleet dev");
	while (!stop_requested && status == 0) {
		size_t n = 0;

		if (port->ops->list_nodes(port, count_node, &n, &e) == 0 && n >= d->n)
			break;
		if (!are_nodes_running(d))
			status = EXIT_FAILED;
		if (clock_boot_ms() > until) {
			cli_error("fleet dev: %zu of %zu nodes have not reported themselves", d->n - n, d->n);
			status = EXIT_FAILED;
		}
		poll(NULL, 0, POLL_MS);
	}
	port->ops->free(port);
	return status;
}

/* ---- the verb ---- */

static int announce(const struct dev *d)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	if (!cli_as_json(d->cli)) {
		buf_printf(&out,
			   "%zu nodes (dev-1 to dev-%zu) and a NATS server run in %s\n\n"
			   "In another terminal:\n"
			   "  export BAILIFF_FLEET=%s BAILIFF_FLEET_KEY=%s/client.seed\n"
			   "  bailiff fleet run -- uname -a\n\n"
			   "Ctrl-C ends them and removes the folder.\n",
			   d->n, d->n, d->dir, d->url, d->dir);
		return format_out(&out);
	}
	jw_obj(&w);
	jw_kstr(&w, "url", d->url);
	jw_kstr(&w, "folder", d->dir);
	jw_kobj(&w, "environment");
	jw_kstr(&w, "BAILIFF_FLEET", d->url);
	jw_key(&w, "BAILIFF_FLEET_KEY");
	mem_auto char *key = mem_printf("%s/client.seed", d->dir);
	jw_str(&w, key);
	jw_obj_end(&w);
	jw_karr(&w, "nodes");
	for (size_t i = 0; i < d->n; i++) {
		mem_auto char *name = mem_printf("dev-%zu", i + 1), *home = mem_printf("%s/node%zu", d->dir, i + 1);

		jw_obj(&w);
		jw_kstr(&w, "node", name);
		jw_kstr(&w, "home", home);
		jw_kint(&w, "pid", d->node[i]);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	return format_out(&out);
}

/* Until a signal. A node that ends is reported and stays away, like a machine; without the server it is over. */
static int watch(struct dev *d)
{
	while (!stop_requested) {
		if (!is_server_running(d))
			return EXIT_FAILED;
		(void)are_nodes_running(d);
		poll(NULL, 0, 200);
	}
	return 0;
}

static int run(struct dev *d)
{
	struct err e = ERR_INIT;
	int status;

	if (write_key(d, "client.seed", d->user_key, &e) < 0 || write_key(d, "node.seed", d->node_key, &e) < 0 ||
	    write_server_config(d, &e) < 0 || start_server(d, &e) < 0)
		return cli_fail(d->cli, EXIT_FAILED, &e, "fleet dev");
	if ((status = wait_for_server(d)) || stop_requested)
		return status;
	for (size_t i = 0; i < d->n; i++)
		if (start_node(d, i, &e) < 0)
			return cli_fail(d->cli, EXIT_FAILED, &e, "fleet dev");
	if ((status = wait_for_nodes(d)) || stop_requested || (status = announce(d)))
		return status;
	return watch(d);
}

int fleet_dev(struct cli *c)
{
	const struct sigaction on = { .sa_handler = on_signal };
	const char *base = getenv("TMPDIR"), *nodes = opts_get(&c->opts, OPT_fleet_NODES);
	struct dev d = { .cli = c, .n = 3 };
	char *end;

	if (nodes && ((d.n = strtoul(nodes, &end, 10)) < 1 || d.n > NODES_MAX || *end))
		return cli_usage(c, "--nodes: '%s' is not a number from 1 to %u", nodes, NODES_MAX);
	d.dir = mem_printf("%s/bailiff-fleet-XXXXXX", base && base[0] == '/' ? base : "/tmp");
	if (!mkdtemp(d.dir)) {
		cli_error("fleet dev: create a folder in %s: %s", base ? base : "/tmp", strerror(errno));
		free(d.dir);
		return EXIT_FAILED;
	}
	sigaction(SIGINT, &on, NULL);
	sigaction(SIGTERM, &on, NULL);
	sigaction(SIGHUP, &on, NULL);
	int status = run(&d);
	for (size_t i = 0; i < d.n; i++) /* together: each may need a moment to end what runs in it */
		if (d.node[i] > 0)
			kill(d.node[i], SIGTERM);
	for (size_t i = 0; i < d.n; i++)
		stop(&d.node[i]);
	stop(&d.server);
	nftw(d.dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	free(d.dir), free(d.url);
	return status;
}
