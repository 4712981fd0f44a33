#include "sandbox/loopback.h"

#include "runtime/base/fd.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int loopback_up(void)
{
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo" };
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	return fd < 0 ? -1 : ioctl(fd, SIOCSIFFLAGS, &r);
}
