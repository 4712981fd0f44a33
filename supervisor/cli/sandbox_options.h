#ifndef BAILIFF_CLI_SANDBOX_OPTIONS_H
#define BAILIFF_CLI_SANDBOX_OPTIONS_H

/*
 * The members `cwd`, `profile` and `sandbox` of a request, from a verb's options. The command line runs as the user and
 * can read paths that the daemon cannot, so it determines the workspace.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jw;
struct opts;

/* The verb's options (OPT_…); profile −1 = none. */
struct sandbox_options {
	int profile, cwd, ro, rw, hide, net, hosts, tmp;
	bool within; /* for a command in a session sandbox: write only what is given */
	bool later;  /* for a command that starts later: a path need not exist yet */
};

/* An option with a number (milliseconds, bytes …) and its member of `limits`. */
struct limit_option {
	int option;
	const char *member;
	int (*parse)(const char *text, uint64_t *ret, struct err *e);
};
/* The limits of a whole process tree. */
#define TREE_LIMIT_OPTIONS(verb)                                                                            \
	{ OPT_##verb##_MEMORY, "memoryBytes", text_size_bytes },                                            \
		{ OPT_##verb##_MEMORY_HIGH, "memoryHighBytes", text_size_bytes },                           \
		{ OPT_##verb##_PIDS, "pids", text_count }, { OPT_##verb##_CPUS, "cpus", text_thousandths }, \
		{ OPT_##verb##_IO_WEIGHT, "ioWeight", text_count },                                         \
		{ OPT_##verb##_IO_READ, "ioReadBps", text_size_bytes },                                     \
	{                                                                                                   \
		OPT_##verb##_IO_WRITE, "ioWriteBps", text_size_bytes                                        \
	}
/* Writes the member `limits`. */
int limit_options_write(const struct opts *o, const struct limit_option *rows, size_t n, struct jw *w, struct err *e);

/* The options of `run` that a task or job passes to each of its commands, other than those of the sandbox. */
#define COMMAND_LIMIT_OPTIONS(verb)                                   \
	{ OPT_##verb##_COMMAND_TIMEOUT, "wallMs", text_duration_ms }, \
		{ OPT_##verb##_CPU_TIME, "cpuMs", text_duration_ms }, \
		{ OPT_##verb##_OUTPUT_LIMIT, "outputBytes", text_size_bytes }, TREE_LIMIT_OPTIONS(verb)

/*
 * The variables of --env and --env-pass, in the order of the command line, as members of an open object. The last
 * option for a variable counts. env_pass −1: the verb has no such option.
 */
int env_options_write(const struct opts *o, int env, int env_pass, struct jw *w, struct err *e);
/* Whether a later one sets the same variable as option `i`. */
bool env_option_overridden(const struct opts *o, size_t i, int env, int env_pass);

/* Of a verb with all of them; needs the OPT_… values of cli.h. */
#define SANDBOX_OPTIONS(verb)                                                                                \
	{                                                                                                    \
		OPT_##verb##_PROFILE, OPT_##verb##_CWD, OPT_##verb##_RO, OPT_##verb##_RW, OPT_##verb##_HIDE, \
			OPT_##verb##_NET, OPT_##verb##_ALLOW_HOST, OPT_##verb##_TMP_SIZE                     \
	}

/* The members are written to `w`. Relative paths are resolved here, in the user's working directory. */
int sandbox_options_write(const struct opts *o, const struct sandbox_options *names, struct jw *w, struct err *e);

#endif
