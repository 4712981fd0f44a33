#include "tests/escape/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/vm_sockets.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- kinds of sockets ---- */

static int try_packet(const char *arg) { return socket(AF_PACKET, SOCK_RAW, 0); }

static int try_raw(const char *arg) { return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }

static int try_raw6(const char *arg) { return socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6); }

static int try_netlink(const char *arg) { return socket(AF_NETLINK, SOCK_RAW, atoi(arg)); }

static int try_netlink_high_bits(const char *arg)
{
	return (int)syscall(SYS_socket, AF_NETLINK | 1ul << 32, SOCK_RAW, NETLINK_ROUTE);
}

static int try_family(const char *arg)
{
	return socket(atoi(arg), SOCK_DGRAM, 0) < 0 && socket(atoi(arg), SOCK_STREAM, 0) < 0
		       ? socket(atoi(arg), SOCK_SEQPACKET, 0)
		       : 0;
}

static int try_interface(const char *arg)
{
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	return ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &r);
}

/* ---- reaching something: ADDRESS,PORT ---- */

static socklen_t address(const char *arg, struct sockaddr_storage *ret)
{
	char text[64];
	const char *comma = strchr(arg, ',');
	in_port_t port = htons((in_port_t)(comma ? atoi(comma + 1) : 0));
	snprintf(text, sizeof text, "%.*s", (int)(comma ? comma - arg : 60), arg);
	*ret = (struct sockaddr_storage){ 0 };
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;
	if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
		four->sin_family = AF_INET;
		four->sin_port = port;
		return sizeof *four;
	}
	inet_pton(AF_INET6, text, &six->sin6_addr);
	six->sin6_family = AF_INET6;
	six->sin6_port = port;
	return sizeof *six;
}

static int try_connect(const char *arg)
{
	struct sockaddr_storage a;
	socklen_t len = address(arg, &a);
	int fd = socket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&a, len) < 0 && errno != EINPROGRESS)
		return -1;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	socklen_t size = sizeof error;
	if (poll(&p, 1, 2000) == 0)
		return probe_shut(ETIMEDOUT);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
	return error ? probe_shut(error) : 0;
}

static int try_send(const char *arg)
{
	struct sockaddr_storage a;
	socklen_t len = address(arg, &a);
	return (int)sendto(socket(a.ss_family, SOCK_DGRAM, 0), "x", 1, 0, (struct sockaddr *)&a, len);
}

static int try_fast_open(const char *arg)
{
	struct sockaddr_storage a;
	socklen_t len = address(arg, &a);
	return (int)sendto(socket(a.ss_family, SOCK_STREAM, 0), "x", 1, MSG_FASTOPEN, (struct sockaddr *)&a, len);
}

static int unix_connect(struct sockaddr_un *a, size_t len)
{
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(fd, (struct sockaddr *)a, size) == 0)
		return 0;
	if (errno != EPROTOTYPE)
		return -1;
	return connect(socket(AF_UNIX, SOCK_DGRAM, 0), (struct sockaddr *)a, size);
}

static int try_unix(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	return unix_connect(&a, strlen(a.sun_path) + 1);
}

static int try_abstract(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "%s", name);
	return unix_connect(&a, 1 + strlen(name));
}

/* ---- other processes' memory and queues ---- */

static int try_shared_memory(const char *key) { return shmget((key_t)strtol(key, NULL, 10), 1, 0); }

static int try_semaphore(const char *key) { return semget((key_t)strtol(key, NULL, 10), 1, 0); }

static int try_message_queue(const char *key) { return msgget((key_t)strtol(key, NULL, 10), 0); }

static int try_posix_queue(const char *name) { return mq_open(name, O_RDONLY); }

static int try_posix_memory(const char *name) { return shm_open(name, O_RDONLY, 0); }

const struct probe probe_network[] = {
	{ "packet", try_packet },
	{ "raw", try_raw },
	{ "raw6", try_raw6 },
	{ "netlink", try_netlink },
	{ "netlink_high_bits", try_netlink_high_bits },
	{ "family", try_family },
	{ "interface", try_interface },
	{ "connect", try_connect },
	{ "send", try_send },
	{ "fast_open", try_fast_open },
	{ "unix", try_unix },
	{ "abstract", try_abstract },
	{ "shared_memory", try_shared_memory },
	{ "semaphore", try_semaphore },
	{ "message_queue", try_message_queue },
	{ "posix_queue", try_posix_queue },
	{ "posix_memory", try_posix_memory },
	{ 0 },
};
