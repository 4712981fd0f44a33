/* The entry of the command line: the table of verbs, and everything up to the verb. */

#include "supervisor/cli/cli_main.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/noun.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

static const struct verb rows[] = {
#define VERB(name, flags, usage, summary, details) { #name, #name, flags, usage, summary, details, cmd_##name },
#define VERB_AS(key, name, flags, usage, summary, details) { #key, name, flags, usage, summary, details, cmd_##key },
#define NOUN(name, flags, usage, summary, details) { #name, #name, flags, usage, summary, details, noun_run },
#define NOUN_AS(key, name, flags, usage, summary, details) { #key, name, flags, usage, summary, details, noun_run },
#include "supervisor/cli/verbs.def"
};
static const struct subverb subverbs[] = {
#define CALL(noun, name, least, most, flags, method, args, options, member) \
	{ #noun, name, least, most, flags, method, args, options, member, NULL, NULL },
#define LIST(noun, name, least, most, flags, method, args, options, member, columns) \
	{ #noun, name, least, most, (flags) | SUB_READS, method, args, options, member, columns, NULL },
#define SUBVERB(noun, name, least, most, flags, function, options) \
	{ #noun, name, least, most, flags, NULL, "", options, NULL, NULL, function },
#include "supervisor/cli/verbs.def"
};
/* The positions of the verbs. That of a group is its first verb's. */
enum {
#define GROUP(key, title) GROUP_##key, BEFORE_##key = GROUP_##key - 1,
#define VERB(name, flags, usage, summary, details) VERB_AT_##name,
#define VERB_AS(key, name, flags, usage, summary, details) VERB_AT_##key,
#define NOUN(name, flags, usage, summary, details) VERB_AT_##name,
#define NOUN_AS(key, name, flags, usage, summary, details) VERB_AT_##key,
#include "supervisor/cli/verbs.def"
};
static const struct verb_group groups[] = {
#define GROUP(key, title) { title, GROUP_##key },
#include "supervisor/cli/verbs.def"
};
const struct verb_table cli_verbs = {
	rows, countof(rows), groups, countof(groups), subverbs, countof(subverbs),
};

/* Parses the options of the verb, and runs it or prints its help. Cleans up what the verb left open. */
static int run_verb(const struct verb *v, int argc, char **argv)
{
	struct cli c = { .verbs = &cli_verbs, .verb = v };
	struct opt_table options = verb_options(v);
	struct err e = ERR_INIT;
	int status;

	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0 && (!(v->flags & VERB_STOP) || argv[i][0] == '-'); i++)
		if (strcmp(argv[i], "--json") == 0)
			cli_collect_errors();
	if (opts_parse(&options, argc, argv, &c.opts, &e) < 0) {
		status = cli_usage(&c, "%s", e.message);
		cli_print_errors(status);
		return status;
	}
	if (cli_as_json(&c))
		cli_collect_errors();
	if (c.opts.help) {
		buf_auto struct buf help = BUF_INIT;

		verb_help(v, &help);
		status = format_out(&help);
	} else {
		status = v->run(&c);
	}
	if (format_print_failed() && (status == 0 || v->flags & VERB_RUN))
		status = v->flags & VERB_RUN ? EXIT_BAILIFF : EXIT_FAILED;
	cli_print_errors(status);
	remote_free(c.remote);
	opts_done(&c.opts);
	return status;
}

/* Verbs of other tools, and what bailiff calls them. */
static const struct {
	const char *theirs, *ours;
} synonyms[] = {
	{ "info", "daemon status" },   { "list", "ps" },   { "shell", "run -it" },
	{ "shutdown", "daemon stop" }, { "tail", "logs" }, { "terminate", "kill" },
};

static void hint_verb(const char *name)
{
	const struct verb *noun = verb_of_subverb(&cli_verbs, name);
	const char *near = verb_nearest(&cli_verbs, name);

	for (size_t i = 0; i < countof(synonyms); i++)
		if (strcmp(synonyms[i].theirs, name) == 0)
			near = synonyms[i].ours;
	if (noun)
		cli_hint("did you mean 'bailiff %s %s'?", noun->name, name);
	else if (near)
		cli_hint("did you mean 'bailiff %s'?", near);
	cli_hint("bailiff help lists the verbs");
}

int cli_main(int argc, char **argv)
{
	/*
	 * Open missing standard descriptors: otherwise the next descriptor opened, such as the daemon's socket, would
	 * get the number of one. A missing stdout stays one that cannot be written.
	 */
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) < 0)
			abort();
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		buf_auto struct buf text = BUF_INIT;

		verb_overview(&cli_verbs, &text);
		fd_write_all(STDERR_FILENO, text.data, text.len);
		return EXIT_USAGE;
	}
	const char *name = argv[1];
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
		name = "help";
	else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	else if (name[0] == '-') {
		cli_error("unknown option '%s': options come after the verb", name);
		cli_hint("bailiff help lists the verbs");
		return EXIT_USAGE;
	}
	const struct verb *v = verb_find(&cli_verbs, name);
	if (v)
		return run_verb(v, argc - 2, argv + 2);
	cli_error("unknown verb '%s'", name);
	hint_verb(name);
	return EXIT_USAGE;
}
