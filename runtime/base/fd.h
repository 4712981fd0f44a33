#ifndef BAILIFF_BASE_FD_H
#define BAILIFF_BASE_FD_H

/* File descriptors: −1 means none; all descriptors created here are O_CLOEXEC. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

void fd_close(int *fd); /* closes if ≥ 0, sets −1 */
#define fd_auto __attribute__((cleanup(fd_close)))
static inline int fd_take(int *fd)
{
	int v = *fd;
	*fd = -1;
	return v;
}

int fd_nonblock(int fd, bool on);
int fd_cloexec(int fd, bool on);
int fd_write_all(int fd, const void *p, size_t n); /* 0 or −1 with errno; retries EINTR and short writes */
ssize_t fd_read_all(int fd, void *p, size_t cap);  /* until end of file or cap; −1 with errno */
ssize_t fd_pread_all(int fd, void *p, size_t n, uint64_t offset); /* likewise, with pread */
int fd_raise_nofile(void); /* soft RLIMIT_NOFILE to the hard one; returns the limit */

/* One SEQPACKET message with descriptors. */
#define FD_MESSAGE_MAX 16
/* 0, or −1 with errno (EAGAIN on a full non-blocking socket). flags as for sendmsg. */
int fd_send(int sock, const void *msg, size_t len, const int *fds, size_t nfds, int flags);
/*
 * Receives one message: the number of bytes, 0 at end of file, −1 with errno. Stores at most *nfds descriptors (all
 * O_CLOEXEC) and sets *nfds to their number. A message that is longer than cap or has more descriptors is an error
 * (EMSGSIZE), and its descriptors are closed.
 */
ssize_t fd_recv(int sock, void *msg, size_t cap, int *fds, size_t *nfds, int flags);
/* Whether fd_recv may be retried after this errno: no message yet, or the kernel is out of memory. */
bool fd_recv_again(int errnum);

/* pidfd_open, pidfd_send_signal and close_range as raw system calls */
int fd_pidfd_open(pid_t pid);
int fd_pidfd_signal(int pidfd, int sig);
pid_t fd_pidfd_pid(int pidfd); /* in our own pid namespace; 0 = gone, or in another one */
int fd_close_range(unsigned first, unsigned last);
int fd_memfd_sealed(const char *name, const void *p, size_t n); /* −1 with errno */

#endif
