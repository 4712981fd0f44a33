#ifndef BAILIFF_CLI_SETUP_H
#define BAILIFF_CLI_SETUP_H

/*
 * Another program's configuration file with bailiff's entry in it: what else the file says stays. A merge takes the
 * file's present text (NULL: there is no file) and gives the new one; nothing is written here.
 */

#include <stdbool.h>

struct buf;
struct err;

struct setup_entry {
	const char *program; /* absolute path of bailiff */
	const char *home;    /* BAILIFF_HOME that goes along, or NULL */
};

enum setup_form {
	SETUP_MCP_SERVERS,           /* {"mcpServers":{"bailiff":{…}}} */
	SETUP_CLAUDE_SERVERS,        /* the same; the tools are always loaded, not only when a search finds them */
	SETUP_COMMENTED_MCP_SERVERS, /* the same, by a client that takes comments */
	SETUP_VSCODE_SERVERS,        /* {"servers":{"bailiff":{…}}}; comments, and commas before closing brackets */
	SETUP_CODEX_ENVIRONMENTS,    /* TOML: [[environments]] id = "bailiff" */
};

/* ERR_INVALID says where the present text is not what it should be, as "line 3, column 7: …". */
int setup_merge(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		struct err *e);

/* Names of tools that a client is not to have, in the array object.array of one of its files. */
struct setup_exclusion {
	const char *object, *array;
	const char *const *names; /* until NULL */
};
/* Adds those that are missing. */
int setup_exclude_json(enum setup_form form, const char *present, const struct setup_exclusion *x, struct buf *ret,
		       struct err *e);

/* setup_json.c, setup_toml.c */
int setup_merge_json(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		     struct err *e);
int setup_merge_toml(const char *present, const struct setup_entry *entry, struct buf *ret, struct err *e);

/*
 * Puts `text` into the place of the file, whole or not at all, with the file's mode; what was there is kept in
 * FILE.before-bailiff the first time. A symbolic link stays one: its target is written. Folders are made.
 */
int setup_write(const char *path, const struct buf *text, bool *ret_kept_old, struct err *e);

#endif
