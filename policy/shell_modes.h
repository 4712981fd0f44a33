#ifndef BAILIFF_POLICY_SHELL_MODES_H
#define BAILIFF_POLICY_SHELL_MODES_H

/*
 * The options of a shell and of its builtins `set` and `shopt`, parsed as bash and dash do: every o or O of a cluster
 * takes the next word (`sh -oc errexit 'text'`), + is like -, and bash's long options need only one dash (`bash -rcfile
 * x -c 'text'`).
 */

#include "policy/args.h"

struct shell_flags {
	size_t next;     /* the first word after the options */
	bool command;    /* -c: the next word is the text */
	bool from_stdin; /* -s */
	bool posix;      /* bash in POSIX mode: parses like sh */
	bool sources;    /* --rcfile, -i: runs the commands of a file first */
	bool prints;     /* --version, --help: nothing is run */
	bool strange;    /* a mode that is not in shell_modes.def, or is unknown */
	bool open;       /* an unknown word may be an option */
};

/* Parses the options of sh, bash and similar shells; word[0] is the shell. */
void shell_flags_of_shell(const struct command_word *word, size_t count, struct shell_flags *ret);
/* Whether `set` or `shopt` with these words sets only modes that are in shell_modes.def. */
bool shell_modes_known(const struct command_word *word, size_t count);

#endif
