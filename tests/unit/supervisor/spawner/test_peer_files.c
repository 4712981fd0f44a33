/* Policy files are opened with the peer's identity: whatever the runtime requests, it never gets a file that the peer
 * cannot read, or another file. */

#include "supervisor/spawner/peer_files.h"
#include "tests/unit/supervisor/spawner/private_root.h"

enum { UID = 65533 };

/* The first reply with the text of its file; index PEER_FILES_END: no reply. */
static struct peer_files_reply request_files(enum peer_files_op what, const void *request, size_t len, int client,
					     char text[256])
{
	struct peer_files_reply first = { .index = PEER_FILES_END }, a;
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	const int fds[PEER_FILES_FDS] = { [PEER_FILES_FD_REQUEST] = fd_memfd_sealed("look", request, len),
					  [PEER_FILES_FD_CLIENT] = client,
					  [PEER_FILES_FD_REPLY] = pair[1] };
	const struct spawn_msg m = { .kind = SPAWN_PEER_FILES, .op = what };
	ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, fds, PEER_FILES_FDS, 0), 0);
	close(fds[PEER_FILES_FD_REQUEST]);
	close(pair[1]);
	text[0] = 0;
	for (;;) {
		int got[PEER_FILES_WATCH_MAX + 1];
		size_t n = countof(got);
		rig_readable(pair[0], "an answer, or the end");
		if (fd_recv(pair[0], &a, sizeof a, got, &n, 0) != sizeof a || a.index == PEER_FILES_END)
			break;
		if (first.index == PEER_FILES_END)
			first = a;
		ssize_t got_text = n > a.nwatch ? pread(got[n - 1], text, 255, 0) : -1;
		if (got_text >= 0)
			text[got_text] = 0;
		for (size_t i = 0; i < n; i++)
			close(got[i]);
	}
	close(pair[0]);
	return first;
}

static void put_mode(const char *folder_path, const char *name, const char *what, mode_t mode)
{
	mem_auto char *path = mem_printf("%s/%s", folder_path, name);
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert(fd >= 0 && fd_write_all(fd, what, strlen(what)) == 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
}

START_TEST(files_are_read_as_the_peer)
{
	char text[256];
	folder(work, ".bailiff");
	mem_auto char *inner = mem_printf("%s/.bailiff", work);
	put_mode(inner, "policy.json", "{}", 0644);
	struct peer_files_reply a = request_files(PEER_FILES_WORKSPACE, work, strlen(work) + 1, rig.client[0], text);
	ck_assert_uint_eq(a.index, 0);
	ck_assert_int_eq(a.error, 0);
	ck_assert_uint_eq(a.nwatch, 3);
	ck_assert_str_eq(text, "{}");
	SKIP_IF(geteuid() != 0, "requires root");
	fd_auto int client = socket_of(UID);
	ck_assert_int_eq(chmod(place, 0755), 0);
	ck_assert_int_eq(chmod(work, 0755), 0);
	ck_assert_int_eq(chmod(inner, 0755), 0);
	a = request_files(PEER_FILES_WORKSPACE, work, strlen(work) + 1, client, text);
	ck_assert_int_eq(a.error, 0);
	put_mode(inner, "policy.json", "for root only", 0600);
	a = request_files(PEER_FILES_WORKSPACE, work, strlen(work) + 1, client, text);
	ck_assert_int_eq(a.error, EACCES);
	ck_assert_str_eq(text, "");
	ck_assert_int_eq(chmod(work, 0700), 0);
	a = request_files(PEER_FILES_WORKSPACE, work, strlen(work) + 1, client, text);
	ck_assert_int_ne(a.error, 0);
	ck_assert_str_eq(text, "");
}
END_TEST

/* The runtime names only directories, and it cannot substitute another socket for a client's. */
START_TEST(other_files_and_other_sockets_are_rejected)
{
	static const char *const bad[] = { "relative", "/etc/shadow", "/proc/self/environ" };
	static const struct peer_files_write replace = { .exists = 0 };
	int stranger[2];
	char text[256];
	for (size_t i = 0; i < countof(bad); i++) {
		struct peer_files_reply a = request_files(PEER_FILES_WORKSPACE, bad[i], strlen(bad[i]) + 1,
							  rig.client[0], text);
		ck_assert_msg(a.index == PEER_FILES_END || a.error != 0, "%s", bad[i]);
		ck_assert_str_eq(text, "");
	}
	/* Not a client's socket: a pipe, and a datagram socket. */
	ck_assert_int_eq(pipe(stranger), 0);
	ck_assert_uint_eq(request_files(PEER_FILES_USER, "", 0, stranger[0], text).index, PEER_FILES_END);
	ck_assert_uint_eq(request_files(PEER_FILES_WRITE, &replace, sizeof replace, stranger[0], text).index,
			  PEER_FILES_END);
	close(stranger[0]);
	close(stranger[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, stranger), 0);
	ck_assert_uint_eq(request_files(PEER_FILES_USER, "", 0, stranger[0], text).index, PEER_FILES_END);
	close(stranger[0]);
	close(stranger[1]);
	/* Too short, and too long. */
	ck_assert_uint_eq(request_files(PEER_FILES_WRITE, "x", 1, rig.client[0], text).index, PEER_FILES_END);
	rig_sync(&rig);
}
END_TEST

/* The last name of a list may lack its NUL: it ends with the request. */
START_TEST(a_list_without_its_terminator_is_not_read_beyond_its_end)
{
	enum { LONG = 127 }; /* one more byte would fill the buffer */
	char text[256], list[LONG + 1];
	folder(work, ".bailiff");
	mem_auto char *inner = mem_printf("%s/.bailiff", work);
	put_mode(inner, "policy.json", "{}", 0644);
	memset(list, '/', sizeof list);
	ck_assert_uint_lt(strlen(work), sizeof list);
	memcpy(list + sizeof list - strlen(work), work, strlen(work)); /* "///…/tmp/x" */
	for (size_t n = LONG; n <= sizeof list; n++) {
		struct peer_files_reply a = request_files(PEER_FILES_WORKSPACE, list + sizeof list - n, n,
							  rig.client[0], text);
		ck_assert_uint_eq(a.index, 0);
		ck_assert_int_eq(a.error, 0);
		ck_assert_str_eq(text, "{}");
	}
	rig_sync(&rig);
}
END_TEST

int main(int argc, char **argv)
{
	setenv("MALLOC_PERTURB_", "165", 1); /* in the spawner, uninitialized memory is not zero */
	return PRIVATE_ROOT_SUITE(argc, argv, "peer_files", files_are_read_as_the_peer,
				  other_files_and_other_sockets_are_rejected,
				  a_list_without_its_terminator_is_not_read_beyond_its_end);
}
