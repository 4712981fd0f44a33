/* The sandbox's part of published ports: sockets on request, and which ports are listening. */

#include "supervisor/spawner/dialer.h"

#include "runtime/base/fd.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sends one request and returns the socket of the reply, or −errno. */
static int request_socket(int ends[2], uint32_t family)
{
	const struct dialer_msg request = { .family = family };
	struct dialer_msg reply;
	int fd = -1;
	size_t nfds = 1;

	ck_assert_int_eq(fd_send(ends[0], &request, sizeof request, NULL, 0, 0), 0);
	ck_assert(dialer_answer(ends[1]));
	ck_assert_int_eq(fd_recv(ends[0], &reply, sizeof reply, &fd, &nfds, MSG_DONTWAIT), sizeof reply);
	ck_assert_uint_eq(reply.family, family);
	ck_assert_int_eq(reply.error == 0, nfds == 1);
	return reply.error ? -reply.error : fd;
}

static int socket_option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof value;

	ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, name, &value, &len), 0);
	return value;
}

START_TEST(each_request_is_answered_with_an_unconnected_socket)
{
	static const uint32_t families[] = { AF_INET, AF_INET6 };
	struct sockaddr_storage peer;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	for (size_t i = 0; i < 2; i++) {
		socklen_t len = sizeof peer;
		fd_auto int fd = request_socket(ends, families[i]);
		if (fd == -EAFNOSUPPORT)
			continue; /* a kernel without IPv6 */
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(socket_option(fd, SO_TYPE), SOCK_STREAM);
		ck_assert_int_eq(socket_option(fd, SO_DOMAIN), (int)families[i]);
		ck_assert(getpeername(fd, (struct sockaddr *)&peer, &len) < 0 && errno == ENOTCONN);
	}
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(other_families_are_rejected)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_eq(request_socket(ends, AF_UNIX), -EAFNOSUPPORT);
	ck_assert_int_eq(request_socket(ends, AF_NETLINK), -EAFNOSUPPORT);
	/* A malformed request is not answered, and the next one is. */
	ck_assert_int_eq(send(ends[0], "x", 1, 0), 1);
	ck_assert(dialer_answer(ends[1]));
	ck_assert(recv(ends[0], &(char){ 0 }, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	fd_auto int fd = request_socket(ends, AF_INET);
	ck_assert_int_ge(fd, 0);
	close(ends[0]);
	ck_assert(!dialer_answer(ends[1]));
	close(ends[1]);
}
END_TEST

/* A line as written on a machine with this byte order. */
static const char *line_of(const char *address4, unsigned port, const char *state)
{
	static char line[200];
	struct in_addr a;

	ck_assert_int_eq(inet_pton(AF_INET, address4, &a), 1);
	snprintf(line, sizeof line,
		 "   0: %08X:%04X 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 27188136 1",
		 a.s_addr, port, state);
	return line;
}

START_TEST(lines_of_the_socket_table_are_parsed)
{
	char six[200];

	ck_assert_uint_eq(listening_ports_parse(line_of("127.0.0.1", 3000, "0A")), 3000);
	ck_assert_uint_eq(listening_ports_parse(line_of("0.0.0.0", 65535, "0A")), 65535);
	ck_assert_uint_eq(listening_ports_parse(line_of("127.0.0.2", 3000, "0A")), 0);
	ck_assert_uint_eq(listening_ports_parse(line_of("127.0.0.1", 3000, "01")), 0);
	ck_assert_uint_eq(listening_ports_parse("  sl  local_address rem_address   st tx_queue rx_queue"), 0);
	ck_assert_uint_eq(listening_ports_parse(""), 0);
	ck_assert_uint_eq(listening_ports_parse("   0: 0100007F:0BB8"), 0);
	ck_assert_uint_eq(listening_ports_parse("   0: 01007F:0BB8 00000000:0000 0A"), 0);
	snprintf(six, sizeof six, "   1: 0000000000000000%08X%08X:1F90 %032d:0000 0A 0", 0u, htonl(1), 0);
	ck_assert_uint_eq(listening_ports_parse(six), 8080);
	snprintf(six, sizeof six, "   1: %032d:1F90 %032d:0000 0A 0", 0, 0);
	ck_assert_uint_eq(listening_ports_parse(six), 8080);
	snprintf(six, sizeof six, "   1: 0000000000000000%08X%08X:1F90 %032d:0000 0A 0", htonl(0xffff),
		 htonl(0x7f000001), 0);
	ck_assert_uint_eq(listening_ports_parse(six), 8080);
	snprintf(six, sizeof six, "   1: 0000000000000000%08X%08X:1F90 %032d:0000 0A 0", 0u, htonl(2), 0);
	ck_assert_uint_eq(listening_ports_parse(six), 0);
}
END_TEST

static bool has_port(const struct listening_ports *l, uint16_t port)
{
	for (unsigned i = 0; i < l->ports.count; i++)
		if (l->ports.port[i] == port)
			return true;
	return false;
}

/* Checks several times, because the number of sockets may stay the same while other programs start and end. */
static void check_until(struct listening_ports *l, uint16_t except)
{
	for (int i = 0; i < 6; i++)
		listening_ports_check(l, except);
}

START_TEST(a_new_listener_and_its_end_are_found)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	struct listening_ports l = { 0 }, other = { 0 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	ck_assert_int_eq(listen(fd, 1), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	uint16_t port = ntohs(at.sin_port);
	check_until(&l, 0);
	SKIP_IF(l.ports.count == STATUS_PORTS_MAX, "more listeners on this machine than fit into one report");
	ck_assert(has_port(&l, port));
	check_until(&other, port);
	ck_assert(!has_port(&other, port));
	close(fd);
	check_until(&l, 0);
	ck_assert(!has_port(&l, port));
}
END_TEST

int main(void)
{
	return SUITE("dialer", each_request_is_answered_with_an_unconnected_socket, other_families_are_rejected,
		     lines_of_the_socket_table_are_parsed, a_new_listener_and_its_end_are_found);
}
