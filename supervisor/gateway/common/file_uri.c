#include "supervisor/gateway/common/file_uri.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/path.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Skips an optional authority. Returns NULL if it names another host. */
static const char *skip_authority(const char *s)
{
	if (strncmp(s, "//", 2) != 0)
		return s;
	s += 2;
	return strncasecmp(s, "localhost/", 10) == 0 ? s + 9 : *s == '/' ? s : NULL;
}

int file_uri_path(const char *uri, char ret[PATH_MAX], struct err *e)
{
	char path[PATH_MAX];
	size_t n = 0;

	if (strncasecmp(uri, "file:", 5) != 0)
		return err_set(e, ERR_INVALID, "'%.200s' is not a file: URI", uri);
	const char *s = skip_authority(uri + 5);
	if (!s || *s != '/')
		return err_set(e, ERR_INVALID, "'%.200s' is invalid on 'linux'", uri);
	for (; *s; s++) {
		int high = *s == '%' ? hex_digit(s[1]) : -1, low = high >= 0 ? hex_digit(s[2]) : -1;
		char c = *s;

		if (c == '?' || c == '#')
			break;
		/* "%00" is rejected: a path cannot contain a NUL byte. */
		if (c == '%' && (low < 0 || (high == 0 && low == 0)))
			return err_set(e, ERR_INVALID, "'%.200s' is invalid on 'linux'", uri);
		if (c == '%') {
			c = (char)(high << 4 | low);
			s += 2;
		}
		if (n + 1 >= sizeof(path))
			return err_set(e, ERR_INVALID, "the path is too long");
		path[n++] = c;
	}
	path[n] = '\0';
	return path_clean(path, ret, e);
}

void file_uri_write(const char *path, struct buf *out)
{
	buf_str(out, "file://");
	for (const unsigned char *s = (const unsigned char *)path; *s; s++)
		if (isalnum(*s) || strchr("/-._~!$&'()*+,;=:@", *s))
			buf_byte(out, (char)*s);
		else
			buf_printf(out, "%%%02X", *s);
}
