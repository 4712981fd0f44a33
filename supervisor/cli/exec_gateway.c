#include "supervisor/cli/exec_gateway.h"

#include "runtime/base/find_program.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

int exec_gateway(struct cli *c, const char *name)
{
	static const char *const places[] = { "bailiff-gateway", "../libexec/bailiff/bailiff-gateway" };
	mem_auto char *program = find_program(places, countof(places));
	const struct opts *o = &c->opts;
	size_t n = 0;

	if (o->nargs)
		return cli_usage(c, "unexpected argument '%s'", o->args[0]);
	char **argv = mem_zalloc(2 * o->ngiven + 3, sizeof(*argv)); /* freed by exec or exit */
	argv[n++] = program;
	argv[n++] = mem_strdup(name);
	for (size_t i = 0; i < o->ngiven; i++) {
		argv[n++] = mem_printf("--%s", option_rows[o->given[i].option].name);
		if (o->given[i].value)
			argv[n++] = mem_strdup(o->given[i].value);
	}
	signal(SIGPIPE, SIG_DFL);
	execvp(program, argv);
	cli_error("%s: start %s: %s", c->verb->name, program, strerror(errno));
	cli_hint("it is installed with bailiff; check that the installation is complete");
	return EXIT_FAILED;
}
