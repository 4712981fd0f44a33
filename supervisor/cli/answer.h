#ifndef BAILIFF_CLI_ANSWER_H
#define BAILIFF_CLI_ANSWER_H

/* What approve and deny have in common. */

struct cli;

struct answer_options {
	int note, always, session, decision, json; /* the verb's OPT_… */
};
int answer_actions(struct cli *c, const char *decision, const struct answer_options *o);

#endif
