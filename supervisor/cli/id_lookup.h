#ifndef BAILIFF_CLI_ID_LOOKUP_H
#define BAILIFF_CLI_ID_LOOKUP_H

/*
 * Lists of the daemon, read page by page, and ids as users write them: complete, or any unique prefix, with or without
 * "proc_" (or "sess_"), or the last 4 or more characters: ids are random, and shorter ends would match by accident.
 * "@last" is the newest one. Sandboxes, subagents, sessions and tasks are also found by their exact names.
 */

#include "supervisor/cli/cli.h"

#define ID_LOOKUP_MAX 72

enum id_kind {
	ID_PROCESS,
	ID_SESSION,
	ID_THREAD, /* these two are searched in the newest sessions */
	ID_TURN,
	ID_TASK,
	ID_JOB,
	ID_SUBAGENT,
	ID_CHANNEL,
	ID_SANDBOX,
	ID_ACTION,  /* any action */
	ID_PENDING, /* an action that is still open */
	ID_KINDS
};

/* How ids of a kind are listed: the method, the list in its result, and the member with the id. */
struct id_kind_row {
	const char *noun;   /* also the name of the kind in verbs.def */
	const char *prefix; /* of generated ids */
	const char *method, *list, *member;
	const char *filter; /* members of the request; "": none */
	const char *hint;   /* the command that lists them */
	const char *name;   /* the member with a name that people gave it; NULL: none */
};
extern const struct id_kind_row id_kinds[ID_KINDS];

/* The kind with this noun; −1: there is none. */
int id_kind_of(const char *noun, size_t len);

/* On failure prints why (no match, or several, which are listed) and returns −1. */
int id_lookup(struct cli *c, enum id_kind kind, const char *given, char ret[ID_LOOKUP_MAX]);
/*
 * A sandbox (open) or a process, by id or the sandbox's name: ID_SANDBOX, ID_PROCESS, or −1 after printing why. A whole
 * id or name wins over a beginning or end; @last is the newer of the two.
 */
int id_lookup_sandbox_or_process(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX]);
/* The newest sandbox of this name, silently: its id and why it was closed. False: there is none, or it is open. */
bool id_lookup_closed_sandbox(struct cli *c, const char *name, char ret[ID_LOOKUP_MAX], char ret_reason[32]);
/* The element with exactly this id, silently: −1 if there is none. */
int id_read_element(struct cli *c, enum id_kind kind, const char *id, struct buf *ret);
/* The whole element of the list. */
int id_lookup_element(struct cli *c, enum id_kind kind, const char *given, struct buf *ret);
/* Connects, and looks up the process in the verb's first argument. */
int id_lookup_connect(struct cli *c, char ret_process[ID_LOOKUP_MAX]);
/* Writes a member with the id that an option names, if it is given. 0, or −1 after printing why. */
int id_lookup_option(struct cli *c, int option, enum id_kind kind, const char *member, struct jw *w);

/*
 * Calls fn for each element of all pages, until it returns false. `filter` has members that select, or is NULL. Methods
 * that are not named list_… get no page size.
 */
int list_pages(struct cli *c, const char *method, const char *list, const struct buf *filter,
	       bool (*fn)(void *ctx, struct jval element), void *ctx, struct err *e);

#endif
