#include "supervisor/gateway/common/gateway_sandbox.h"

#include "runtime/base/mem.h"
#include "supervisor/client/autostart.h"
#include "supervisor/common/role_sandbox.h"

#include <libgen.h>

int gateway_sandbox_enter(const char *readable, struct err *e)
{
	/*
	 * Allow the directory, not the file: editors and tools replace files, and a rule on the old inode would not
	 * cover the new one.
	 */
	mem_auto char *copy = readable ? mem_strdup(readable) : NULL;
	const struct role_sandbox_path own[] = {
		{ ROLE_SANDBOX_LIST, "/", -1 },
		{ ROLE_SANDBOX_READ, copy ? dirname(copy) : NULL, -1 },
	};

	if (autostart_delegate(e) < 0)
		return -1;
	return role_sandbox_enter(ROLE_SANDBOX_GATEWAY, own, countof(own), e);
}
