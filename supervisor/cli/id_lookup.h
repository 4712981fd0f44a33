#ifndef BAILIFF_CLI_ID_LOOKUP_H
#define BAILIFF_CLI_ID_LOOKUP_H

/* Ids as users write them: complete, or any unique prefix, with or without "proc_" (or "sess_"). */

#define ID_LOOKUP_MAX 72

struct cli;

/* On failure prints why (no match, or several, which are listed) and returns −1. */
int id_lookup_process(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX]);
int id_lookup_task(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX]);
int id_lookup_job(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX]);
int id_lookup_session(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX]);

#endif
