#include "supervisor/client/daemon_program.h"

#include "runtime/base/find_program.h"
#include "runtime/base/mem.h"
#include "supervisor/client/program_output.h"

char *daemon_program_path(void)
{
	static const char *const places[] = { "bailiffd", "../sbin/bailiffd" };

	return find_program(places, countof(places));
}

int daemon_program_describe(struct buf *ret, struct err *e)
{
	mem_auto char *program = daemon_program_path();
	char version[] = "--version", json[] = "--json";
	char *argv[] = { program, version, json, NULL };

	return program_output(argv, ret, e);
}
