#ifndef BAILIFF_SUPERVISOR_CLI_WRITE_CONFINEMENT_H
#define BAILIFF_SUPERVISOR_CLI_WRITE_CONFINEMENT_H

/*
 * Confines a program that the command line starts on the host, and that reads data from a sandbox, to writing in one
 * directory: a Landlock domain without rights to create, write, link, rename or remove anything elsewhere, whatever
 * symbolic links lead there. Reading and executing are not restricted. Landlock does not restrict changes of modes,
 * owners and times.
 */

#include <stdbool.h>

bool write_confinement_available(void);
/* For this process and its children, for good. Sets no_new_privs. `folder` may be O_PATH. 0, or −1 with errno. */
int write_confinement_enter(int folder);

#endif
