#include "supervisor/cli/write_confinement.h"

#include "runtime/base/fd.h"

#include <linux/landlock.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAKE_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SOCK)
#define WRITING                                                                                           \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_FIFO |       \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | MAKE_DEVICES)
/* Younger than some headers. Before ABI 2, nothing can be linked or renamed to another directory at all. */
#define REFER (1ull << 13)    /* ABI 2 */
#define TRUNCATE (1ull << 14) /* ABI 3 */

static int abi_version(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool write_confinement_available(void) { return abi_version() >= 1; }

int write_confinement_enter(int folder)
{
	int abi = abi_version();

	if (abi < 1)
		return -1;
	const struct landlock_ruleset_attr attr = { .handled_access_fs = WRITING | (abi >= 2 ? REFER : 0) |
									 (abi >= 3 ? TRUNCATE : 0) };
	const struct landlock_path_beneath_attr rule = {
		.allowed_access = attr.handled_access_fs & ~(uint64_t)MAKE_DEVICES,
		.parent_fd = folder,
	};
	fd_auto int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr.handled_access_fs), 0);
	if (ruleset < 0 || syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
}
