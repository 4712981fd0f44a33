#ifndef BAILIFF_POLICY_SHELL_MODES_H
#define BAILIFF_POLICY_SHELL_MODES_H

/*
 * The options of a shell and of its builtins `set` and `shopt`, read as bash and dash read them: every o or O of a
 * cluster takes the next word
 * (`sh -oc errexit 'text'`), + is like -, and bash's long options need only one dash (`bash -rcfile x -c 'text'`).
 */

#include "policy/args.h"

struct shell_flags {
	size_t next;     /* the first word behind the options */
	bool command;    /* -c: the next word is the text */
	bool from_stdin; /* -s */
	bool posix;      /* bash, but as sh reads */
	bool sources;    /* --rcfile, -i: commands of a file come first */
	bool prints;     /* --version, --help: nothing else happens */
	bool strange;    /* a mode that is not in shell_modes.def, or that is not known */
	bool open;       /* a word that is not known may be an option */
};

/* Of sh, bash and their like; word[0] is the shell. */
void shell_flags_of_shell(const struct command_word *word, size_t count, struct shell_flags *ret);
/* Whether `set` or `shopt` with these words leaves the shell in modes that are known. */
bool shell_modes_known(const struct command_word *word, size_t count);

#endif
