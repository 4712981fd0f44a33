/*
 * `bailiff fleet …` executes bailiff-fleet-client, found next to this program or in ../libexec/bailiff: the client of
 * NATS has threads and libraries of its own, which the command line should not load for people without a fleet. Options
 * and the number of arguments are checked here, so that errors and help need no such program.
 */

#include "runtime/base/find_program.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

int fleet_verb(struct cli *c)
{
	static const char *const places[] = { "bailiff-fleet-client", "../libexec/bailiff/bailiff-fleet-client" };
	mem_auto char *program = find_program(places, countof(places));
	const struct opts *o = &c->opts;
	size_t n = 0;
	char **argv = mem_zalloc(2 * o->ngiven + o->nargs + 3, sizeof(*argv)); /* freed by exec or exit */

	argv[n++] = program;
	for (size_t i = 0; i < o->ngiven; i++) {
		argv[n++] = mem_printf("--%s", option_rows[o->given[i].option].name);
		if (o->given[i].value)
			argv[n++] = mem_strdup(o->given[i].value);
	}
	argv[n++] = mem_strdup("--");
	for (size_t i = 0; i < o->nargs; i++)
		argv[n++] = mem_strdup(o->args[i]);
	signal(SIGPIPE, SIG_DFL);
	execvp(program, argv);
	if (errno == ENOENT) {
		cli_error("fleet: this installation has no bailiff-fleet-client");
		cli_hint("the Debian package bailiff-fleet has it; from source, it is built where libnats is installed "
			 "(Debian: libnats-dev); the static tarball leaves it out");
	} else {
		cli_error("fleet: start %s: %s", program, strerror(errno));
	}
	return EXIT_FAILED;
}
