#ifndef BAILIFF_CLI_CLI_MAIN_H
#define BAILIFF_CLI_CLI_MAIN_H

#include "supervisor/cli/verb.h"

extern const struct verb_table cli_verbs;

int cli_main(int argc, char **argv); /* the exit status */

#endif
