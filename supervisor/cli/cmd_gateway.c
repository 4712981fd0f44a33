/*
 * Verbs that execute bailiff-gateway, found next to this program or in ../libexec/bailiff: gateways parse untrusted
 * input and need an event loop, which the command line should not contain.
 */

#include "runtime/base/find_program.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* `name` is the kind (gateways.def); the verb's options are passed on. Returns only on failure, with the exit status.
 */
static int exec_gateway(struct cli *c, const char *name)
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

int cmd_mcp(struct cli *c) { return exec_gateway(c, "mcp"); }

int cmd_serve(struct cli *c) { return exec_gateway(c, "serve"); }

int cmd_console(struct cli *c) { return exec_gateway(c, "console"); }

int cmd_acp(struct cli *c) { return exec_gateway(c, "acp"); }

int cmd_codex_exec_server(struct cli *c) { return exec_gateway(c, "codex-exec-server"); }
