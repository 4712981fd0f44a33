/*
 * bailiff-spawner: the privileged part of the daemon as a program of its own, for the guard to execute.
 *
 * It has libseccomp in it and needs the C library, and nothing else: what is root has neither a parser of JSON, nor a
 * database, nor an event loop in its memory, and each sandbox's init, which begins as a copy of it, has a dozen
 * mappings instead of fifty. The kernel copies and takes down every one of them for every command. Where this program
 * is missing the guard executes bailiffd in its place, with the same arguments: the same code, at a higher price.
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
		fprintf(stderr, "bailiff-spawner: this is a part of bailiffd, which starts it; it is no command\n");
		return EXIT_USAGE;
	}
	return spawner_role(&o, &title);
}
