#include "runtime/base/build.h"
#include "supervisor/cli/cli_main.h"

int main(int argc, char **argv)
{
	build = BUILD_STAMP;
	return cli_main(argc, argv);
}
