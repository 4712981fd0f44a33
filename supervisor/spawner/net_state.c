#include "supervisor/spawner/net_state.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_MAX 16384

static const struct {
	const char *name;
	bool first_line; /* the others of sockstat are about the whole machine */
} files[NET_STATE_FILES] = { { "sockstat", true }, { "dev", false },     { "snmp", false },
			     { "snmp6", false },   { "netstat", false }, { "ip6_flowlabel", false } };

void net_state_close(struct net_state *s)
{
	for (size_t i = 0; i < countof(files); i++)
		fd_close(&s->fd[i]);
}

bool net_state_open(struct net_state *ret)
{
	bool all = true;
	fd_auto int folder = open("/proc/self/net", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < countof(files); i++) {
		ret->fd[i] = openat(folder, files[i].name, O_RDONLY | O_CLOEXEC);
		all &= ret->fd[i] >= 0;
	}
	if (!all)
		net_state_close(ret);
	return all;
}

/* From the start, as it is now. */
static bool read_file(int fd, bool first_line, struct buf *out)
{
	size_t begin = out->len;
	ssize_t n;
	while ((n = pread(fd, buf_reserve(out, READ_MAX), READ_MAX, (off_t)(out->len - begin))) > 0)
		buf_extend(out, (size_t)n);
	const char *end = first_line && out->len > begin ? memchr(out->data + begin, '\n', out->len - begin) : NULL;
	if (end)
		out->len = (size_t)(end - out->data) + 1;
	return n == 0 && out->len > begin;
}

bool net_state_read(const struct net_state *s, struct buf *out)
{
	buf_reset(out);
	for (size_t i = 0; i < countof(files); i++) {
		if (!read_file(s->fd[i], files[i].first_line, out))
			return false;
	}
	return true;
}

/* Their number is the first line of the first file. */
bool net_state_has_same_sockets(const struct net_state *s, const struct buf *report)
{
	char line[64];
	ssize_t n = pread(s->fd[0], line, sizeof line, 0);
	const char *end = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;
	size_t len = end ? (size_t)(end - line) + 1 : 0;
	return end && len <= report->len && memcmp(line, report->data, len) == 0;
}

bool net_state_has_no_socket(const struct buf *report)
{
	static const char no_socket[] = "sockets: used 0\n";
	return report->len >= sizeof no_socket && memcmp(report->data, no_socket, sizeof no_socket - 1) == 0;
}
