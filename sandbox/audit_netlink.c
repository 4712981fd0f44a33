/* Sends and receives the kernel's audit messages. */

#include "sandbox/audit.h"
#include "sandbox/audit_private.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MS 2000

int audit_open(void) { return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_AUDIT); }

int audit_send(int fd, uint16_t type, uint16_t flags, const void *body, size_t n)
{
	struct audit_message m = { .head = { .nlmsg_len = (uint32_t)NLMSG_LENGTH(n),
					     .nlmsg_type = type,
					     .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags) } };
	const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	if (n > sizeof m.body) {
		errno = EMSGSIZE;
		return -1;
	}
	memcpy(m.body, body, n);
	return sendto(fd, &m, NLMSG_ALIGN(m.head.nlmsg_len), 0, (const struct sockaddr *)&kernel, sizeof kernel) < 0
		       ? -1
		       : 0;
}

ssize_t audit_receive_within(int fd, int ms, struct audit_message *ret)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	if (poll(&p, 1, ms) != 1) {
		errno = ETIMEDOUT;
		return -1;
	}
	ssize_t n = recv(fd, ret, sizeof *ret, MSG_DONTWAIT);
	if (n >= 0 && n < (ssize_t)sizeof ret->head) {
		errno = EPROTO;
		return -1;
	}
	return n;
}

ssize_t audit_receive(int fd, struct audit_message *ret) { return audit_receive_within(fd, ANSWER_MS, ret); }

int audit_error_of(const struct audit_message *m, ssize_t n)
{
	int error = 0;
	if (n < (ssize_t)(sizeof m->head + sizeof error))
		return 0;
	memcpy(&error, m->body, sizeof error);
	errno = -error;
	return error == 0 ? 0 : -1;
}

int audit_request(int fd, uint16_t type, const void *body, size_t n)
{
	struct audit_message m;
	if (audit_send(fd, type, NLM_F_ACK, body, n) < 0)
		return -1;
	for (;;) {
		ssize_t got = audit_receive(fd, &m);
		if (got < 0)
			return -1;
		if (m.head.nlmsg_type == NLMSG_ERROR)
			return audit_error_of(&m, got);
	}
}

int audit_get_status(int fd, struct audit_status *ret)
{
	struct audit_message m;
	if (audit_send(fd, AUDIT_GET, 0, "", 0) < 0)
		return -1;
	for (;;) {
		ssize_t n = audit_receive(fd, &m);
		if (n < 0 || (m.head.nlmsg_type == NLMSG_ERROR && audit_error_of(&m, n) < 0))
			return -1;
		if (m.head.nlmsg_type != AUDIT_GET)
			continue;
		size_t len = (size_t)n - sizeof m.head;
		*ret = (struct audit_status){ 0 }; /* older kernels have fewer members */
		memcpy(ret, m.body, len < sizeof *ret ? len : sizeof *ret);
		return 0;
	}
}
