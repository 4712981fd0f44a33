#ifndef BAILIFF_CLI_POLICY_EXPLANATION_H
#define BAILIFF_CLI_POLICY_EXPLANATION_H

struct buf;
struct cli;

/* The decisions about a process or an action, for people (cmd_policy.c). −1 after printing why there are none. */
int policy_explanation(struct cli *c, const char *given, struct buf *out);

#endif
