#ifndef BAILIFF_CLI_TARGET_H
#define BAILIFF_CLI_TARGET_H

/* Ids as people write them: whole, or any unique prefix, with or without "proc_" (or "sess_"). */

#define TARGET_ID_MAX 72

struct cli;

/* Prints what is wrong (nothing matches, or several do, which it lists) and returns −1. */
int target_process(struct cli *c, const char *given, char ret[TARGET_ID_MAX]);
int target_task(struct cli *c, const char *given, char ret[TARGET_ID_MAX]);
int target_job(struct cli *c, const char *given, char ret[TARGET_ID_MAX]);
int target_session(struct cli *c, const char *given, char ret[TARGET_ID_MAX]);

#endif
