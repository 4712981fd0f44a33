#include "supervisor/gateway/http/http_tokens.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "http-token"
#define FILE_MAX_BYTES (64u << 10)
#define TOKENS_MAX 64

struct http_tokens {
	char *path;       /* NULL: parsed from text, no file */
	struct stat seen; /* the file when it was last read, successfully or not */
	struct http_token all[TOKENS_MAX];
	size_t n;
	void (*gone)(void *ctx, const char *principal);
	void *ctx;
};

static const char *set_env(const char *name)
{
	const char *v = getenv(name);

	return v && v[0] ? v : NULL;
}

int http_tokens_path(char *ret, unsigned cap, struct err *e)
{
	const char *home = set_env("BAILIFF_HOME"), *config = set_env("XDG_CONFIG_HOME"), *user = set_env("HOME");
	int n;

	if (home)
		n = snprintf(ret, cap, "%s/%s", home, FILE_NAME);
	else if (geteuid() == 0)
		n = snprintf(ret, cap, "/etc/bailiff/%s", FILE_NAME);
	else if (config)
		n = snprintf(ret, cap, "%s/bailiff/%s", config, FILE_NAME);
	else if (user)
		n = snprintf(ret, cap, "%s/.config/bailiff/%s", user, FILE_NAME);
	else
		return err_field(e, "--token-file", "HOME is not set: name a file");
	if (n < 0 || (unsigned)n >= cap)
		return err_field(e, "--token-file", "the path of the token's file is too long");
	return 0;
}

/* ---- contents of the file ---- */

bool http_tokens_is_name(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n <= HTTP_CLIENT_NAME_MAX && !name[n];
}

void http_tokens_free(struct http_tokens *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->all[i].text);
	free(t->path);
	free(t);
}

const struct http_token *http_tokens_named(const struct http_tokens *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->all[i].name, name) == 0)
			return &t->all[i];
	return NULL;
}

static int read_line(struct http_tokens *t, char *line, unsigned number, struct err *e)
{
	char *rest = NULL;
	char *first = strtok_r(line, " \t\r", &rest), *second = first ? strtok_r(NULL, " \t\r", &rest) : NULL;

	if (!first || first[0] == '#')
		return 0;
	if (second && strtok_r(NULL, " \t\r", &rest))
		return err_field(e, "--token-file", "line %u: expected TOKEN, or NAME TOKEN", number);
	struct http_token *k = &t->all[t->n];
	char digest[HASH_SHA256_TEXT];
	size_t len = strlen((second ? second : first));
	if (t->n == TOKENS_MAX)
		return err_field(e, "--token-file", "there are more than %d tokens", TOKENS_MAX);
	if ((second ? first : "")[0] && !http_tokens_is_name((second ? first : "")))
		return err_field(e, "--token-file",
				 "line %u: a client's name has 1 to %d letters, digits, '.', '_' and '-'", number,
				 HTTP_CLIENT_NAME_MAX);
	for (size_t i = 0; i < len; i++)
		if ((second ? second : first)[i] <= ' ' || (second ? second : first)[i] >= 0x7f)
			return err_field(e, "--token-file",
					 "line %u: the token has characters that a header cannot have", number);
	if (len < HTTP_TOKEN_MIN || len > HTTP_TOKEN_MAX)
		return err_field(e, "--token-file", "line %u: a token must have %d to %d characters", number,
				 HTTP_TOKEN_MIN, HTTP_TOKEN_MAX);
	if (http_tokens_named(t, (second ? first : "")))
		return err_field(e, "--token-file",
				 (second ? first : "")[0] ? "line %u: duplicate client name"
							  : "line %u: only one token may be without a name",
				 number);
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->all[i].text, (second ? second : first)) == 0)
			return err_field(e, "--token-file", "line %u: another client has this token", number);
	hash_sha256_text((second ? second : first), len, digest);
	snprintf(k->name, sizeof(k->name), "%s", (second ? first : ""));
	snprintf(k->principal, sizeof(k->principal), "%s%s:%.16s", (second ? first : "")[0] ? "client:" : "token",
		 (second ? first : ""), digest);
	k->text = mem_strdup((second ? second : first));
	t->n++;
	return 0;
}

/* Modifies `text`: splits it into lines and words. */
static int read_lines(struct http_tokens *t, char *text, struct err *e)
{
	unsigned number = 1;

	for (char *line = text; line; number++) {
		char *next = strchr(line, '\n');

		if (next)
			*next++ = '\0';
		if (read_line(t, line, number, e) < 0)
			return -1;
		line = next;
	}
	return 0;
}

int http_tokens_parse(const char *text, size_t len, struct http_tokens **ret, struct err *e)
{
	if (len > FILE_MAX_BYTES)
		return err_field(e, "--token-file", "it has more than %u bytes", FILE_MAX_BYTES);
	if (memchr(text, '\0', len))
		return err_field(e, "--token-file", "it has characters that a header cannot have");
	mem_auto char *copy = mem_strndup(text, len);
	struct http_tokens *t = mem_zalloc(1, sizeof(*t));
	if (read_lines(t, copy, e) < 0) {
		http_tokens_free(t);
		return -1;
	}
	*ret = t;
	return 0;
}

/* ---- the file ---- */

static int read_file(int fd, const char *path, struct http_tokens **ret, struct err *e)
{
	mem_auto char *text = mem_zalloc(1, FILE_MAX_BYTES + 2);
	struct http_tokens *t;
	struct stat st;
	ssize_t n;

	/* O_NOFOLLOW and O_NONBLOCK at open, and these checks on the descriptor, leave no window for a replaced file.
	 */
	if (fstat(fd, &st) < 0)
		return err_sys(e, errno, "stat '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_field(e, "--token-file", "'%s' is not a plain file", path);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & 077))
		return err_field(e, "--token-file",
				 "'%s' is owned by another user or readable by others: delete it (a new one is "
				 "created), or chmod 600 a file that was never readable",
				 path);
	n = lseek(fd, 0, SEEK_SET) < 0 ? -1 : fd_read_all(fd, text, FILE_MAX_BYTES + 1);
	if (n < 0)
		return err_sys(e, errno, "read '%s'", path);
	if (http_tokens_parse(text, (size_t)n, &t, e) < 0)
		return err_wrap(e, "'%s'", path);
	t->path = mem_strdup(path);
	t->seen = st;
	*ret = t;
	return 0;
}

/* Appends a token. The caller holds the file's lock, so that two concurrent callers create only one. */
static int append_token(int fd, const char *path, const char *name, struct err *e)
{
	unsigned char bytes[32];
	buf_auto struct buf line = BUF_INIT;
	struct stat st;
	char last = '\n';

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return err_sys(e, errno, "get random bytes");
	if (fstat(fd, &st) == 0 && st.st_size && pread(fd, &last, 1, st.st_size - 1) != 1)
		return err_sys(e, errno, "read '%s'", path);
	if (last != '\n')
		buf_byte(&line, '\n');
	if (name[0])
		buf_printf(&line, "%s ", name);
	for (size_t i = 0; i < sizeof(bytes); i++)
		buf_printf(&line, "%02x", bytes[i]);
	buf_byte(&line, '\n');
	if (fd_write_all(fd, line.data, line.len) < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "write '%s'", path);
	return 0;
}

/*
 * The shared token is created only if the file has no token for agents at all: a user who gave each client its own
 * token does not want a shared one.
 */
static bool has_token(const struct http_tokens *t, const char *name)
{
	if (name[0])
		return http_tokens_named(t, name) != NULL;
	return t->n > (http_tokens_named(t, HTTP_CONSOLE_CLIENT) ? 1 : 0);
}

static int make_token(const char *path, const char *name, struct http_tokens **ret, struct err *e)
{
	struct http_tokens *t = NULL;

	/* Creates the parent directories with mode 0700. */
	mem_auto char *copy = mem_strdup(path);
	for (char *p = strchr(copy + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(copy, 0700) < 0 && errno != EEXIST)
			return err_sys(e, errno, "create directory '%s'", copy);
		*p = '/';
	}
	fd_auto int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return err_sys(e, errno, "open '%s'", path);
	/* Read again under the lock: another process may have added the token. */
	if (read_file(fd, path, &t, e) < 0)
		return -1;
	bool there = has_token(t, name);
	http_tokens_free(t);
	if (!there && append_token(fd, path, name, e) < 0)
		return -1;
	return read_file(fd, path, ret, e);
}

int http_tokens_load(const char *path, const char *name, bool create, struct http_tokens **ret, struct err *e)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct http_tokens *t = NULL;

	if (fd < 0 && (errno != ENOENT || !create))
		return err_sys(e, errno, "open '%s'", path);
	if (fd >= 0 && read_file(fd, path, &t, e) < 0)
		return -1;
	if (create && (!t || !has_token(t, name))) {
		http_tokens_free(mem_take(&t));
		if (make_token(path, name, &t, e) < 0)
			return err_wrap(e, "create a token for HTTP clients");
	}
	*ret = t;
	return 0;
}

/* ---- changes ---- */

const char *http_tokens_file(const struct http_tokens *t) { return t->path; }

void http_tokens_listen(struct http_tokens *t, void (*gone)(void *ctx, const char *principal), void *ctx)
{
	t->gone = gone;
	t->ctx = ctx;
}

static bool has_principal(const struct http_tokens *t, const char *principal)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->all[i].principal, principal) == 0)
			return true;
	return false;
}

static void refresh_tokens(struct http_tokens *t)
{
	struct http_tokens *new = NULL;
	struct http_token old[TOKENS_MAX];
	struct err e = ERR_INIT;
	struct stat st;
	size_t nold = t->n;

	if (!t->path || lstat(t->path, &st) < 0 ||
	    (st.st_dev == t->seen.st_dev && st.st_ino == t->seen.st_ino && st.st_size == t->seen.st_size &&
	     st.st_mode == t->seen.st_mode && st.st_uid == t->seen.st_uid &&
	     st.st_mtim.tv_sec == t->seen.st_mtim.tv_sec && st.st_mtim.tv_nsec == t->seen.st_mtim.tv_nsec))
		return;
	if (http_tokens_load(t->path, "", false, &new, &e) < 0) {
		log_warning("the previous tokens of HTTP clients stay in effect: %s", e.message);
		/* Remember the bad version too, so that it is logged only once. */
		t->seen = st;
		return;
	}
	memcpy(old, t->all, sizeof(old));
	memcpy(t->all, new->all, sizeof(t->all));
	t->n = new->n;
	t->seen = new->seen;
	/* `all` has moved to t; do not free its strings here. */
	new->n = 0;
	http_tokens_free(new);
	for (size_t i = 0; i < nold; i++) {
		if (t->gone && !has_principal(t, old[i].principal))
			t->gone(t->ctx, old[i].principal);
		free(old[i].text);
	}
}

const struct http_token *http_tokens_all(struct http_tokens *t, size_t *ret_n)
{
	refresh_tokens(t);
	*ret_n = t->n;
	return t->all;
}
