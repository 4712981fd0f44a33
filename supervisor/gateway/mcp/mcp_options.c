#include "supervisor/gateway/mcp/mcp_options.h"

#include "runtime/base/err.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>

int mcp_options_parse(int argc, char **argv, struct mcp_config *ret, struct err *e)
{
	static const struct option options[] = {
		{ "cwd", required_argument, NULL, 'C' },     { "profile", required_argument, NULL, 'p' },
		{ "session", required_argument, NULL, 's' }, { "conformance-fixtures", no_argument, NULL, 'f' },
		{ "structured", no_argument, NULL, 'S' },    { 0 },
	};
	struct stat st;
	int c;

	optind = 1;
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'C': ret->cwd = optarg; break;
		case 'p': ret->profile = optarg; break;
		case 's': ret->session_id = optarg; break;
		case 'f': ret->fixtures = true; break;
		case 'S': ret->structured = true; break;
		default: return err_set(e, ERR_INVALID, "an option is not known, or lacks its value");
		}
	if (optind < argc)
		return err_set(e, ERR_INVALID, "takes no argument: '%.100s'", argv[optind]);
	if (ret->cwd && (stat(ret->cwd, &st) < 0 || !S_ISDIR(st.st_mode)))
		return err_set(e, ERR_INVALID, "--cwd: '%.200s' is no folder", ret->cwd);
	return 0;
}
