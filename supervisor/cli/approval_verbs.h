#ifndef BAILIFF_CLI_APPROVAL_VERBS_H
#define BAILIFF_CLI_APPROVAL_VERBS_H

/* Shared by `approve` and `deny`. */

struct cli;

struct approval_options {
	int note, always, session, decision, json; /* the verb's OPT_… values */
};
int approval_answer(struct cli *c, const char *decision, const struct approval_options *o);

#endif
