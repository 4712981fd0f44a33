#ifndef BAILIFF_CLI_SETUP_H
#define BAILIFF_CLI_SETUP_H

/*
 * Adds bailiff's entry to another program's configuration file; the rest of the file is preserved. A merge takes the
 * current text (NULL: no file) and returns the new one; it does not write the file.
 */

#include <stdbool.h>

struct buf;
struct err;

struct setup_entry {
	const char *program; /* absolute path of bailiff */
	const char *home;    /* BAILIFF_HOME to set for it, or NULL */
};

enum setup_form {
	SETUP_MCP_SERVERS,           /* {"mcpServers":{"bailiff":{…}}} */
	SETUP_CLAUDE_SERVERS,        /* the same; tools are always loaded, not only when a search finds them */
	SETUP_COMMENTED_MCP_SERVERS, /* the same, for a client that accepts comments */
	SETUP_VSCODE_SERVERS,        /* {"servers":{"bailiff":{…}}}; accepts comments and trailing commas */
	SETUP_CODEX_ENVIRONMENTS,    /* TOML: [[environments]] id = "bailiff" */
};

/* ERR_INVALID has the position of a syntax error, as "line 3, column 7: …". */
int setup_merge(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		struct err *e);

/* Tools that a client must not use, listed in the array object.array of one of its files. */
struct setup_exclusion {
	const char *object, *array;
	const char *const *names; /* NULL-terminated */
};
/* Adds the missing names. */
int setup_exclude_json(enum setup_form form, const char *present, const struct setup_exclusion *x, struct buf *ret,
		       struct err *e);

/* setup_json.c, setup_toml.c */
int setup_merge_json(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret,
		     struct err *e);
int setup_merge_toml(const char *present, const struct setup_entry *entry, struct buf *ret, struct err *e);

/*
 * Replaces the file atomically, preserving its mode. The first time, the previous contents are kept in
 * FILE.before-bailiff. A symbolic link is preserved: its target is written. Creates missing directories.
 */
int setup_write(const char *path, const struct buf *text, bool *ret_kept_old, struct err *e);

#endif
