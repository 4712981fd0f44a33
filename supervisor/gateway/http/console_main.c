/*
 * `bailiff console`: asks `bailiff serve` for a one-time code and opens the page with it; starts `bailiff serve` in the
 * foreground if none listens.
 *
 * The code is in no argument list, which every local user could read: the browser opens a file, mode 0600, that leads
 * to the page. A sandboxed command with the user's uid must not be able to read that file either, or it could log in
 * first; if it could, or there is no display, the address is printed.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/http/console_files.h"
#include "supervisor/gateway/http/console_secret.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_tokens.h"
#include "supervisor/gateway/http/serve.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLY_S 10
#define REPLY_MOST 65536

struct console_command {
	const char *listen, *role;
	bool print;
	char token_file[PATH_MAX];
	const char *token;
};

/* ---- the code ---- */

/* Whether a link in /proc is the same for a process as for this one; a program that was replaced meanwhile is. */
static bool is_alike(const char *pid, const char *link)
{
	static const char gone[] = " (deleted)";
	mem_auto char *theirs = mem_printf("/proc/%s/%s", pid, link), *ours = mem_printf("/proc/self/%s", link);
	char a[PATH_MAX] = "", b[PATH_MAX] = "";

	if (readlink(theirs, a, sizeof(a) - 1) <= 0 || readlink(ours, b, sizeof(b) - 1) <= 0)
		return false;
	for (char *s = a; s; s = s == a ? b : NULL)
		if (strlen(s) > sizeof(gone) && strcmp(s + strlen(s) - (sizeof(gone) - 1), gone) == 0)
			s[strlen(s) - (sizeof(gone) - 1)] = '\0';
	return strcmp(a, b) == 0;
}

static bool has_descriptor(const char *pid, const char *what)
{
	mem_auto char *path = mem_printf("/proc/%s/fd", pid);
	DIR *dir = opendir(path);
	bool has = false;
	char target[64];

	for (struct dirent *d; dir && !has && (d = readdir(dir));) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = '\0';
		has = strcmp(target, what) == 0;
	}
	if (dir)
		closedir(dir);
	return has;
}

/*
 * A sandboxed command has the user's uid and may share the host's network, and a published port belongs to the daemon's
 * proxy, which without root is the user's, too. So a process that has the socket must be this program, outside of any
 * sandbox: each has a pid namespace of its own.
 */
static bool is_served_by_us(unsigned long inode)
{
	mem_auto char *what = mem_printf("socket:[%lu]", inode);
	DIR *dir = opendir("/proc");
	bool ours = false;

	for (struct dirent *d; dir && !ours && (d = readdir(dir));)
		ours = d->d_name[0] >= '1' && d->d_name[0] <= '9' && is_alike(d->d_name, "exe") &&
		       is_alike(d->d_name, "ns/pid") && has_descriptor(d->d_name, what);
	if (dir)
		closedir(dir);
	return ours;
}

/* An address as /proc/net/tcp has it: its words as numbers, in hexadecimal. */
static void write_address(const void *address, size_t len, char ret[33])
{
	uint32_t words[4];

	memcpy(words, address, len);
	for (size_t i = 0; i < len / sizeof(words[0]); i++)
		snprintf(ret + 8 * i, 9, "%08X", words[i]);
}

/*
 * Whether the sockets that listen on this address belong to `bailiff serve` of the user, or to root: another process
 * that listens there would get the token. The rows of /proc/net/tcp: number, local address, remote address, state (0A:
 * listening), queues, timer, retransmits, uid, timeout, inode.
 */
static int check_listener(const struct http_address *a, const void *address, bool is_six, struct err *e)
{
	FILE *f = fopen(is_six ? "/proc/net/tcp6" : "/proc/net/tcp", "re");
	char line[512], wanted[33], local[33];
	unsigned port, state, uid;
	unsigned long inode;
	int r = -1;

	write_address(address, is_six ? sizeof(struct in6_addr) : sizeof(struct in_addr), wanted);
	err_set(e, ERR_UNAVAILABLE, "which user listens on port %u is not known", a->port);
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " %*[^:]: %32[0-9A-F]:%x %*s %x %*s %*s %*s %u %*s %lu", local, &port, &state, &uid,
			   &inode) != 5 ||
		    port != a->port || state != 0x0a ||
		    (strcmp(local, wanted) != 0 && local[strspn(local, "0")] != '\0'))
			continue;
		r = -1;
		if (uid != geteuid() && uid != 0) {
			err_set(e, ERR_NOT_ALLOWED,
				"another user (uid %u) listens on port %u: choose another port with --listen", uid,
				a->port);
			break;
		}
		if (uid == geteuid() && !is_served_by_us(inode)) {
			err_set(e, ERR_NOT_ALLOWED,
				"what listens on port %u is not known to be bailiff serve of this installation: stop "
				"it, or choose another port with --listen",
				a->port);
			break;
		}
		r = 0;
	}
	if (f)
		fclose(f);
	return r;
}

/* 1: nothing listens there. */
static int connect_server(const struct http_address *a, int *ret, struct err *e)
{
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(a->port) };
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(a->port) };
	bool is_six = inet_pton(AF_INET, a->host, &four.sin_addr) != 1;
	const struct timeval tv = { REPLY_S, 0 };
	fd_auto int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (a->port == 0)
		return 1;
	if (fd < 0 || (is_six && inet_pton(AF_INET6, a->host, &six.sin6_addr) != 1))
		return err_sys(e, errno, "connect to %s", a->host);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four,
		    is_six ? sizeof(six) : sizeof(four)) < 0)
		return errno == ECONNREFUSED ? 1 : err_sys(e, errno, "connect to port %u", a->port);
	if (check_listener(a, is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr, is_six, e) < 0)
		return -1;
	*ret = fd_take(&fd);
	return 0;
}

/* Sends the request and reads the response until the server closes the connection. */
static int exchange_code(const struct console_command *c, int fd, const char *address, struct buf *ret, struct err *e)
{
	buf_auto struct buf body = BUF_INIT, out = BUF_INIT;
	ssize_t n = 1;

	if (c->role)
		buf_printf(&body, "{\"role\":\"%s\"}", c->role);
	buf_printf(&out,
		   "POST /api/code HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nX-Bailiff: 1\r\n"
		   "Content-Type: application/json\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
		   address, c->token, body.len, buf_cstr(&body));
	if (fd_write_all(fd, out.data, out.len) < 0)
		return err_sys(e, errno, "write to http://%s", address);
	while (n > 0 && ret->len < REPLY_MOST) {
		n = read(fd, buf_reserve(ret, 4096), 4096);
		if (n < 0)
			return err_sys(e, errno == EAGAIN ? ETIMEDOUT : errno, "read from http://%s", address);
		buf_extend(ret, (size_t)n);
	}
	return 0;
}

/* The address of the page with a new code; 1: nothing listens there. */
static int page_address(const struct console_command *c, const struct http_address *a, struct buf *ret, struct err *e)
{
	buf_auto struct buf reply = BUF_INIT;
	char address[HTTP_ADDRESS_TEXT], code[CONSOLE_SECRET_TEXT + 1] = "";
	fd_auto int fd = -1;
	int r = connect_server(a, &fd, e);

	http_address_format(a, address);
	if (r != 0)
		return r;
	if (exchange_code(c, fd, address, &reply, e) < 0)
		return -1;
	const char *text = buf_cstr(&reply), *body = strstr(text, "\r\n\r\n");
	if (strncmp(text, "HTTP/1.1 401 ", 13) == 0)
		return err_set(e, ERR_NOT_ALLOWED,
			       "the server at http://%s has other tokens: it belongs to another user or daemon. Choose "
			       "another port with --listen, or its tokens with --token-file",
			       address);
	if (strncmp(text, "HTTP/1.1 200 ", 13) == 0 && body)
		jval_str(jval_get(jval_of(body + 4, strlen(body + 4)), "code"), code, sizeof(code));
	if (strlen(code) != CONSOLE_SECRET_TEXT - 1 || strspn(code, "0123456789abcdef") != strlen(code))
		return err_set(
			e, ERR_UNAVAILABLE,
			"the server at http://%s is not this version of bailiff serve: stop it, or choose another "
			"port with --listen",
			address);
	buf_printf(ret, "http://%s" CONSOLE_PATH "#code=%s", address, code);
	return 0;
}

/* ---- the browser ---- */

/* Writes the file that leads to the page. */
static int write_redirect(const char *path, const char *url, struct err *e)
{
	buf_auto struct buf page = BUF_INIT;
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	buf_printf(&page,
		   "<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n"
		   "<title>bailiff</title>\n<a href=\"%s\">bailiff console</a>\n",
		   url, url);
	if (fd < 0 || fchmod(fd, 0600) < 0 || fd_write_all(fd, page.data, page.len) < 0)
		return err_sys(e, errno, "write '%s'", path);
	return 0;
}

static int run_opener(const char *path)
{
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp("xdg-open", "xdg-open", path, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* 0: the browser opens it. 1: no display. The file is next to the tokens; its code is useless after the login. */
static int open_browser(const struct console_command *c, const char *url, struct err *e)
{
	mem_auto char *copy = mem_strdup(c->token_file), *path = mem_printf("%s/console.html", dirname(copy));
	int seen;

	if (c->print || (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY")))
		return 1;
	/* An empty file first: the check needs one, and the code must not be in it if commands could read it. */
	if (write_redirect(path, "about:blank", e) < 0 || (seen = serve_commands_read(path, e)) < 0)
		return -1;
	if (seen)
		return err_set(e, ERR_NOT_ALLOWED, "commands in sandboxes could read '%s'", path);
	if (write_redirect(path, url, e) < 0)
		return -1;
	return run_opener(path) == 0 ? 0 : err_set(e, ERR_UNAVAILABLE, "xdg-open failed");
}

static void show_page(const struct console_command *c, const char *url)
{
	struct err e = ERR_INIT;
	int r = open_browser(c, url, &e);

	if (r == 0) {
		fprintf(stderr, "opened the console at %.*s\n", (int)strcspn(url, "#"), url);
		return;
	}
	if (r < 0)
		fprintf(stderr, "bailiff console: no browser was opened: %s\n", e.message);
	printf("%s\n", url);
	fflush(stdout);
}

/* ---- the server ---- */

/* Runs in a process of its own until the server listens: the server gives up fork and exec. */
static void follow_server(const struct console_command *c, int fd)
{
	char text[HTTP_ADDRESS_TEXT] = "";
	struct http_address a;
	buf_auto struct buf url = BUF_INIT;
	struct err e = ERR_INIT;

	if (read(fd, text, sizeof(text) - 1) <= 0)
		return; /* it could not start, and said why */
	if (http_address_parse(text, &a, &e) < 0 || page_address(c, &a, &url, &e) != 0)
		fprintf(stderr, "bailiff console: %s\n", e.message);
	else
		show_page(c, url.data);
}

static int start_server(const struct console_command *c, bool own_tokens)
{
	const char *argv[] = { "serve", "--listen", c->listen, "--token-file", c->token_file, NULL };
	int pipe_fds[2];
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		fprintf(stderr, "bailiff console: %s\n", strerror(errno));
		return 1;
	}
	if (pid == 0) {
		/* Twice: the server reaps no children. */
		if (fork() == 0) {
			close(pipe_fds[1]);
			follow_server(c, pipe_fds[0]);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	close(pipe_fds[0]);
	return serve_run(own_tokens ? 5 : 3, (char **)argv, pipe_fds[1]);
}

static int parse_options(struct gateway_options *o, struct console_command *c, struct err *e)
{
	const char *file = gateway_option(o, "token-file");

	c->listen = gateway_option(o, "listen") ?: SERVE_LISTEN;
	c->role = gateway_option(o, "role");
	c->print = gateway_option(o, "print") != NULL;
	if (c->role && strcmp(c->role, "observer") != 0 && strcmp(c->role, "agent") != 0 &&
	    strcmp(c->role, "operator") != 0)
		return err_field(e, "--role", "--role: '%.40s' is not observer, agent or operator", c->role);
	if (!file)
		return http_tokens_path(c->token_file, sizeof(c->token_file), e);
	if (strlen(file) >= sizeof(c->token_file))
		return err_field(e, "--token-file", "--token-file: the path is too long");
	snprintf(c->token_file, sizeof(c->token_file), "%s", file);
	return 0;
}

int console_main(int argc, char **argv)
{
	gateway_options_auto struct gateway_options o = { 0 };
	struct console_command c = { 0 };
	struct http_tokens *tokens = NULL;
	struct http_address a;
	buf_auto struct buf url = BUF_INIT;
	struct err e = ERR_INIT;
	int r = -1;

	if (gateway_options_parse("console", argc, argv, &o, &e) == 0 && parse_options(&o, &c, &e) == 0 &&
	    http_address_parse(c.listen, &a, &e) == 0 &&
	    http_tokens_load(c.token_file, HTTP_CONSOLE_CLIENT, true, &tokens, &e) == 0) {
		c.token = http_tokens_named(tokens, HTTP_CONSOLE_CLIENT)->text;
		r = page_address(&c, &a, &url, &e);
	}
	if (r == 0)
		show_page(&c, url.data);
	if (r < 0)
		fprintf(stderr, "bailiff console: %s\n", e.message);
	int status = r > 0                   ? start_server(&c, gateway_option(&o, "token-file") != NULL)
		     : r == 0                ? 0
		     : e.code == ERR_INVALID ? 2
					     : 1;
	http_tokens_free(tokens);
	return status;
}
