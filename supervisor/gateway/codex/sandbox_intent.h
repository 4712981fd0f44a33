#ifndef BAILIFF_GATEWAY_SANDBOX_INTENT_H
#define BAILIFF_GATEWAY_SANDBOX_INTENT_H

/*
 * The sandbox that Codex requests: the member `sandbox` of its requests. It lists paths that may be read, written or
 * neither, and whether there is a network.
 *
 * It can only *narrow*. The profile from bailiff's policy is the maximum that an agent gets; sandbox_intent_narrow adds
 * changes to a request for that profile that make it at least as strict as the intent: write roots that the intent does
 * not allow writing become read-only (except for writable parts in them), denied paths are hidden, and the network is
 * removed. Anything that the intent allows beyond the profile is not requested, so a client can never get more than
 * policy allows. Unknown members are rejected.
 *
 * As in Codex's own sandbox, the deepest entry for a path decides; among entries for the same path, deny wins over
 * write, and write over read. A part of a denied directory can be reopened for writing, but not for reading. A
 * read-only path in a writable directory that does not exist cannot be created either. In writable directories .git,
 * .agents and .codex are read-only by default.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

enum sandbox_intent_access {
	SANDBOX_INTENT_NOTHING,
	SANDBOX_INTENT_READ,
	SANDBOX_INTENT_WRITE,
	SANDBOX_INTENT_DENY
}; /* in ascending order of precedence */

struct sandbox_intent_entry {
	char *path;
	enum sandbox_intent_access access;
};

struct sandbox_intent {
	bool given;      /* false: Codex leaves the sandbox to us ("danger-full-access") */
	bool restricted; /* only what the entries allow */
	bool network;
	bool minimal;                    /* system programs and libraries are readable */
	enum sandbox_intent_access root; /* for paths without an entry */
	char *cwd;                       /* NULL: not given */
	char **roots;                    /* the workspace roots */
	size_t nroots;
	struct sandbox_intent_entry *entry;
	size_t count;
	char **glob; /* absolute patterns of denied files */
	size_t nglobs;
};

/*
 * `sandbox` may be NULL or null. `cwd` is the request's, used if the intent has none; or NULL. ERR_INVALID with the
 * field.
 */
int sandbox_intent_of(const json_t *sandbox, const char *cwd, struct sandbox_intent *ret, struct err *e);
void sandbox_intent_done(struct sandbox_intent *i);
#define sandbox_intent_auto __attribute__((cleanup(sandbox_intent_done)))

/* The workspace root that contains the directory, or NULL: start_process uses it as the workspace. */
const char *sandbox_intent_workspace(const struct sandbox_intent *i, const char *cwd);
enum sandbox_intent_access sandbox_intent_access(const struct sandbox_intent *i, const char *path);
/*
 * Adds readRoots, writeRoots, hidden and network to `sandbox`, an object for start_process. `profile` is get_sandbox's
 * sandboxProfile for the same directory. ERR_INVALID: the profile cannot be made that strict.
 */
int sandbox_intent_narrow(const struct sandbox_intent *i, const json_t *profile, json_t *sandbox, struct err *e);

/* ---- patterns ---- */

/* '*' and '?' match within a name, '**' any number of directories. Both arguments are absolute and clean. */
bool glob_scan_match(const char *pattern, const char *path);

#endif
