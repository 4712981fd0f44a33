#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/show.h"

int cmd_version(struct cli *c)
{
	buf_auto struct buf out = BUF_INIT;

	buf_str(&out, "bailiff " BAILIFF_VERSION "\n");
	return show_out(&out);
}
