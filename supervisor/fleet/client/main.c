#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/fleet/client/client.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const struct verb verbs[] = {
#define VERB(name, flags, usage, summary, details) { #name, #name, flags, usage, summary, details, NULL },
#define NOUN(name, flags, usage, summary, details) { #name, #name, flags, usage, summary, details, NULL },
#include "supervisor/cli/verbs.def"
};
static const struct verb_table table = { .rows = verbs, .n = countof(verbs) };

static const struct {
	const char *name;
	int (*run)(struct cli *c);
} subverbs[] = {
	{ "cancel", fleet_cancel }, { "dev", fleet_dev },     { "diff", fleet_diff }, { "evidence", fleet_evidence },
	{ "key", fleet_key },       { "list", fleet_list },   { "logs", fleet_logs }, { "nodes", fleet_nodes },
	{ "prune", fleet_prune },   { "retry", fleet_retry }, { "run", fleet_run },   { "show", fleet_show },
	{ "submit", fleet_submit }, { "wait", fleet_wait },
};

int main(int argc, char **argv)
{
	struct cli c = { .verbs = &table, .verb = verb_find(&table, "fleet") };
	struct opt_table options = verb_options(c.verb);
	struct err e = ERR_INIT;
	int status = EXIT_USAGE;

	signal(SIGPIPE, SIG_IGN);
	if (opts_parse(&options, argc - 1, argv + 1, &c.opts, &e) < 0) {
		status = cli_usage(&c, "%s", e.message);
	} else {
		const char *name = c.opts.nargs ? c.opts.args[0] : "";
		size_t i = 0;

		if (cli_as_json(&c))
			cli_collect_errors();
		while (i < countof(subverbs) && strcmp(subverbs[i].name, name) != 0)
			i++;
		status = i < countof(subverbs) ? subverbs[i].run(&c) : cli_usage(&c, "unknown verb '%s'", name);
	}
	cli_print_errors(status);
	opts_done(&c.opts);
	/* Without the destructors of libraries: libnats' threads may still run, and use what is destroyed. */
	fflush(NULL);
	_exit(status);
}
