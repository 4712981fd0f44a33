#include "sandbox/loopback.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Only version 1 of IGMP and MLD reports nothing after a group was left. */
static void report_groups_at_once(void)
{
	static const char *const versions[] = { "/proc/sys/net/ipv4/conf/lo/force_igmp_version",
						"/proc/sys/net/ipv6/conf/lo/force_mld_version" };
	for (size_t i = 0; i < countof(versions); i++) {
		fd_auto int fd = open(versions[i], O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			(void)!write(fd, "1", 1);
	}
}

int loopback_up(void)
{
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo" };
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		return -1;
	report_groups_at_once();
	return 0;
}
