#ifndef BAILIFF_BASE_FD_H
#define BAILIFF_BASE_FD_H

/* File descriptors: −1 means none; everything made here is O_CLOEXEC. */

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
ssize_t fd_read_all(int fd, void *p, size_t cap);  /* until EOF or cap */
int fd_raise_nofile(void);                         /* soft RLIMIT_NOFILE to the hard one; returns the limit */

/* One SEQPACKET message with descriptors. */
#define FD_MESSAGE_MAX 16
/* 0, or −1 with errno (EAGAIN on a full non-blocking socket). flags as for sendmsg. */
int fd_send(int sock, const void *msg, size_t len, const int *fds, size_t nfds, int flags);
/*
 * Receives one message; the number of bytes, 0 at end of file, −1 with errno. At most *nfds descriptors are stored
 * and *nfds is set to how many came (all CLOEXEC). A message that is longer than cap or brings more descriptors is
 * an error (EMSGSIZE) and its descriptors are closed.
 */
/* errno after fd_recv: nothing was taken, and it may work the next time (nothing there, or the kernel has no memory
 * now). */
bool fd_recv_again(int errnum);
ssize_t fd_recv(int sock, void *msg, size_t cap, int *fds, size_t *nfds, int flags);

/* pidfd_open, pidfd_send_signal and close_range without glibc's help */
int fd_pidfd_open(pid_t pid);
int fd_pidfd_signal(int pidfd, int sig);
int fd_close_range(unsigned first, unsigned last);
int fd_memfd_sealed(const char *name, const void *p, size_t n); /* −1 with errno */

#endif
