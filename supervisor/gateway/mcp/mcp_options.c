#include "supervisor/gateway/mcp/mcp_options.h"

#include "runtime/base/err.h"
#include "supervisor/gateway/common/gateway_options.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <sys/stat.h>

int mcp_options_read(const struct gateway_options *o, struct mcp_config *ret, struct err *e)
{
	struct stat st;

	ret->cwd = gateway_option(o, "cwd");
	ret->profile = gateway_option(o, "profile");
	ret->session_id = gateway_option(o, "session");
	ret->structured = gateway_option(o, "structured") != NULL;
	if (ret->cwd && (stat(ret->cwd, &st) < 0 || !S_ISDIR(st.st_mode)))
		return err_set(e, ERR_INVALID, "--cwd: '%.200s' is not a directory", ret->cwd);
	return 0;
}
