/*
 * bailiff-spawner: the privileged part of the daemon as a separate program, executed by the guard.
 *
 * It links only libseccomp and the C library: the process with root privileges contains no JSON parser, database or
 * event loop. Each sandbox's init starts as a copy of it and has about a dozen mappings instead of fifty, all of which
 * the kernel copies and tears down for every command. If this program is missing, the guard executes bailiffd with the
 * same arguments instead: the same code at a higher cost.
 */

#include "runtime/base/err.h"
#include "supervisor/common/options.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/role.h"

#include <stdio.h>
#include <string.h>

#define EXIT_USAGE 2

int main(int argc, char **argv)
{
	struct process_title title;
	struct options o;
	struct err e = ERR_INIT;
	process_title_init(&title, argc, argv);
	if (options_parse(argc, argv, &o, &e) < 0 || !o.role || strcmp(o.role, "spawner") != 0) {
		fprintf(stderr, "bailiff-spawner: a part of bailiffd, which starts it; not a command\n");
		return EXIT_USAGE;
	}
	return spawner_role(&o, &title);
}
