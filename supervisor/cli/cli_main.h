#ifndef BAILIFF_CLI_CLI_MAIN_H
#define BAILIFF_CLI_CLI_MAIN_H

/* The entry of the program, separate from main() so that unit tests can call it in a forked child. */

#include "supervisor/cli/cli.h"

extern const struct verb_table cli_verbs;

int cli_main(int argc, char **argv); /* the exit status */

#endif
