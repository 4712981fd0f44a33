#include "sandbox/capability.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

bool capability_has(int capability)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return data[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability);
}
