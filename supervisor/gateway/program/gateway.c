#include "supervisor/gateway/program/gateway.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/gateway_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} gateways[] = {
#define GATEWAY(name, run) { name, run },
#include "supervisor/gateway/common/gateways.def"
#undef GATEWAY
};

int gateway_main(int argc, char **argv)
{
	/*
	 * Opens missing standard descriptors: otherwise the next descriptor opened, such as the daemon's socket, would
	 * get the number of one.
	 */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
			abort();
	signal(SIGPIPE, SIG_IGN);
	log_setup("bailiff-gateway", LOG_LEVEL_WARNING, false);
	for (size_t i = 0; argc > 1 && i < countof(gateways); i++)
		if (strcmp(argv[1], gateways[i].name) == 0)
			return gateways[i].run(argc - 1, argv + 1);
	fprintf(stderr,
		"bailiff-gateway: started by the verbs of bailiff: bailiff mcp and others; bailiff help lists them\n");
	return 2;
}
