#ifndef BAILIFF_POLICY_ANALYSIS_CACHE_H
#define BAILIFF_POLICY_ANALYSIS_CACHE_H

/*
 * Analyses of recent commands. An analysis depends on nothing but the text and the options, so an entry is valid for as
 * long as all of them are equal, byte by byte: neither policy nor the state of the machine can make it wrong. Agents
 * repeat commands (tests, builds, git status), and the analysis is a considerable part of judging a short one.
 */

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"

#include <stdint.h>

#define ANALYSIS_CACHE_SIZE 8
#define ANALYSIS_CACHE_KEY_MAX 4096u /* longer commands are not kept */

struct analysis_cache {
	struct analysis_cache_entry {
		struct buf key;    /* the command and the options; the facts point into it */
		const char **text; /* pointers to the words and variables in it */
		struct command_facts facts;
		uint64_t used; /* when, by `now`; 0 = free */
	} entry[ANALYSIS_CACHE_SIZE];
	struct buf key; /* of the current lookup */
	uint64_t now;
};

/*
 * The analysis of a line for sh -c, or without one of argv. Valid until the next call; NULL: too long to be kept, so
 * the caller has to analyse it.
 */
const struct command_facts *analysis_cache_get(struct analysis_cache *c, const char *line, const char *const *argv,
					       size_t argc, const struct analysis_options *o);
void analysis_cache_done(struct analysis_cache *c);

#endif
