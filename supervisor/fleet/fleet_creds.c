#include "supervisor/fleet/fleet_creds.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (64u << 10)
#define BLANKS " \t\r\n"
#define JWT_LINE "-----BEGIN NATS USER JWT-----"

int fleet_file_read(const char *path, bool secret, struct buf *ret, struct err *e)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
		return err_set(e, ERR_INVALID, "%s: not a regular file of at most %u bytes", path, FILE_MAX);
	if (secret && st.st_mode & 077)
		return err_set(e, ERR_INVALID, "%s: others can access it (mode %04o); chmod 600 it", path,
			       st.st_mode & 07777u);
	ssize_t n = fd_read_all(fd, buf_reserve(ret, FILE_MAX), FILE_MAX);
	if (n < 0)
		return err_sys(e, errno, "read %s", path);
	buf_extend(ret, (size_t)n);
	return 0;
}

int fleet_creds_read(const char *path, struct fleet_creds *ret, struct err *e)
{
	struct buf text = BUF_INIT;
	struct fleet_creds c = { 0 };
	int r = fleet_file_read(path, true, &text, e);

	/* The first word that looks like a seed; the JWT is the word after its line. */
	for (const char *at = buf_cstr(&text); r == 0 && *at && !c.seed[0];) {
		size_t n = strcspn(at, BLANKS);

		if (n == FLEET_SEED_TEXT - 1 && at[0] == 'S' && at[1] == 'U')
			snprintf(c.seed, sizeof(c.seed), "%.*s", (int)n, at);
		at += n;
		at += strspn(at, BLANKS);
	}
	const char *jwt = r == 0 ? strstr(buf_cstr(&text), JWT_LINE) : NULL;
	if (jwt) {
		jwt += strlen(JWT_LINE);
		jwt += strspn(jwt, BLANKS);
		c.jwt = mem_strndup(jwt, strcspn(jwt, BLANKS));
	}
	if (r == 0 && !c.seed[0])
		r = err_set(e, ERR_INVALID, "%s: has no seed of a user (SU...)", path);
	if (r == 0 && fleet_key_of(c.seed, c.key, e) < 0)
		r = err_wrap(e, "%s", path);
	explicit_bzero(text.data, text.len);
	buf_done(&text);
	if (r < 0)
		fleet_creds_done(&c);
	else
		*ret = c;
	return r;
}

void fleet_creds_done(struct fleet_creds *c)
{
	free(c->jwt);
	explicit_bzero(c, sizeof(*c));
}
