/* Analysis of untrusted command lines: no crash, within the limits, and consistent results. */

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "runtime/base/buf.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct command_facts *f)
{
	for (size_t i = 0; i < f->ncommands; i++) {
		const struct command_simple *c = &f->command[i];

		if (c->parent >= (int)i || !c->text || (c->harm && (!c->impact || !c->advice)) ||
		    (c->unknown & ~f->unknown) || c->harm > f->harm)
			abort();
		if (c->argc && !c->argv[0] && !(c->unknown & COMMAND_UNKNOWN(COMMAND_NAME)) &&
		    !(c->flags & COMMAND_ELSEWHERE))
			abort();
		/* A line is only harmless as a whole if each command is. */
		if ((f->flags & COMMAND_READ_ONLY) && (!(c->flags & COMMAND_READ_ONLY) || c->unknown || c->harm))
			abort();
		for (size_t k = 0; k < c->argc; k++)
			if (!c->plain[k])
				abort();
	}
	if (f->ncommands > COMMAND_COMMANDS_MAX)
		abort();
	for (size_t i = 0; i < f->npaths; i++)
		if (!f->path[i].path || f->path[i].command >= f->ncommands || !f->path[i].access ||
		    (f->path[i].exact && f->path[i].path[0] != '/'))
			abort();
	for (size_t i = 0; i < f->nhosts; i++)
		if (f->host[i].command >= f->ncommands || !f->host[i].intent)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct analysis_options o = { .cwd = "/w/proj", .workspace = "/w/proj", .home = "/home/u" };
	static const char *const argv[] = { "sh" };
	command_facts_auto struct command_facts f = { 0 };
	buf_auto struct buf json = BUF_INIT;

	command_analyse_line((const char *)data, size, &o, &f);
	check(&f);
	command_json(argv, 1, &f, &json);
	json_auto_t *tree = json_loadb(json.data, json.len, 0, NULL);
	if (!tree || !json_is_array(json_object_get(tree, "subcommands")))
		abort();
	return 0;
}
