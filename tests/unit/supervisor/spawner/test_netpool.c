/* Network namespaces that are returned to the pool. Requires root; a kernel without IPv6 reports too little to reuse
 * any. */

#include "supervisor/spawner/netpool.h"

#include "runtime/base/fd.h"
#include "supervisor/spawner/prebuilt.h"
#include "tests/unit/suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWNER 1000

static bool has_pool(struct netpool *p)
{
	netpool_init(p, geteuid() == 0 && access("/proc/self/net/snmp6", R_OK) == 0);
	(void)!netpool_take(p, OWNER);
	if (netpool_is_short(p))
		netpool_fill(p);
	return p->count == 1;
}

static ino_t inode_of(int fd)
{
	struct stat st;
	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

/* Opens a socket in the namespace and returns to the own one. */
static int socket_inside(const struct netpool *p, int ns, int type)
{
	ck_assert_int_eq(setns(ns, CLONE_NEWNET), 0);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(setns(p->home, CLONE_NEWNET), 0);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static const struct sockaddr_in discard_port = { .sin_family = AF_INET, .sin_port = 0x0900 };

START_TEST(an_unused_namespace_is_reused_for_its_owner_only)
{
	struct netpool p;
	if (has_pool(&p)) {
		int ns = netpool_take(&p, OWNER);
		ino_t inode = inode_of(ns);
		netpool_give_back(&p, ns, OWNER);
		ck_assert_uint_eq(p.nused, 1);
		ck_assert_int_eq(netpool_take(&p, OWNER + 1), -1);
		ck_assert_int_eq(netpool_take(&p, 0), -1);
		fd_auto int again = netpool_take(&p, OWNER);
		ck_assert_uint_eq(inode_of(again), inode);
	}
	netpool_done(&p);
}
END_TEST

START_TEST(a_namespace_with_a_remaining_socket_is_not_reused)
{
	struct netpool p;
	if (has_pool(&p)) {
		int ns = netpool_take(&p, OWNER);
		fd_auto int left = socket_inside(&p, ns, SOCK_STREAM);
		ck_assert_int_ge(left, 0);
		netpool_give_back(&p, ns, OWNER);
		ck_assert_uint_eq(p.nused, 0);
	}
	netpool_done(&p);
}
END_TEST

START_TEST(a_namespace_in_which_a_packet_was_sent_is_not_reused)
{
	struct netpool p;
	if (has_pool(&p)) {
		int ns = netpool_take(&p, OWNER);
		struct sockaddr_in to = discard_port;
		fd_auto int fd = socket_inside(&p, ns, SOCK_DGRAM);
		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		ck_assert_int_eq(sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof to), 1);
		fd_close(&fd);
		netpool_give_back(&p, ns, OWNER);
		ck_assert_uint_eq(p.nused, 0);
	}
	netpool_done(&p);
}
END_TEST

START_TEST(a_namespace_that_counted_an_unreachable_network_is_not_reused)
{
	struct netpool p;
	if (has_pool(&p)) {
		int ns = netpool_take(&p, OWNER);
		struct sockaddr_in to = discard_port;
		fd_auto int fd = socket_inside(&p, ns, SOCK_DGRAM);
		to.sin_addr.s_addr = htonl(0xc0000201u); /* 192.0.2.1, for documentation */
		ck_assert_int_lt(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
		fd_close(&fd);
		netpool_give_back(&p, ns, OWNER);
		ck_assert_uint_eq(p.nused, 0);
	}
	netpool_done(&p);
}
END_TEST

START_TEST(the_oldest_is_closed_when_too_many_are_returned)
{
	struct netpool p;
	int ns[NETPOOL_MAX + 1];
	if (has_pool(&p)) {
		for (int i = 0; i <= NETPOOL_MAX; i++) {
			if (!p.count)
				netpool_fill(&p);
			ns[i] = netpool_take(&p, OWNER);
		}
		ino_t newest = inode_of(ns[NETPOOL_MAX]);
		for (int i = 0; i <= NETPOOL_MAX; i++)
			netpool_give_back(&p, ns[i], OWNER);
		ck_assert_uint_eq(p.nused, NETPOOL_MAX);
		fd_auto int again = netpool_take(&p, OWNER);
		ck_assert_uint_eq(inode_of(again), newest);
	}
	netpool_done(&p);
}
END_TEST

/* Gives a namespace to a sandbox whose init is a child of ours, and returns it as if the command had ended. */
static void end_command(struct prebuilt_pool *pool, struct netpool *p, bool dead)
{
	const struct plan_key key = { .id = "proc_1", .attempt = 1 };
	struct prebuilt one = { .link = -1, .mounts = -1, .net = netpool_take(p, OWNER) };
	pid_t pid = fork();
	if (pid == 0)
		for (;;)
			pause();
	ck_assert_int_gt(pid, 0);
	fd_auto int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	ck_assert_int_ge(pidfd, 0);
	one.pidfd = pidfd;
	prebuilt_name_leaf(pool, &key, OWNER, &one);
	if (dead) {
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	}
	prebuilt_forget_leaf(pool, &key);
	prebuilt_collect_garbage(pool);
	if (!dead) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

START_TEST(a_namespace_is_not_reused_while_its_init_lives)
{
	struct netpool p;
	struct prebuilt_pool pool;
	if (has_pool(&p)) {
		prebuilt_pool_init(&pool, NULL, NULL, &p, true, 0, 0);
		end_command(&pool, &p, false);
		ck_assert_uint_eq(p.nused, 0);
		netpool_fill(&p);
		end_command(&pool, &p, true);
		ck_assert_uint_eq(p.nused, 1);
		prebuilt_pool_done(&pool);
	}
	netpool_done(&p);
}
END_TEST

int main(void)
{
	return SUITE("netpool", an_unused_namespace_is_reused_for_its_owner_only,
		     a_namespace_with_a_remaining_socket_is_not_reused,
		     a_namespace_in_which_a_packet_was_sent_is_not_reused,
		     a_namespace_that_counted_an_unreachable_network_is_not_reused,
		     the_oldest_is_closed_when_too_many_are_returned, a_namespace_is_not_reused_while_its_init_lives);
}
