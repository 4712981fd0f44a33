#ifndef BAILIFF_GATEWAY_SANDBOX_INTENT_H
#define BAILIFF_GATEWAY_SANDBOX_INTENT_H

/*
 * What sandbox Codex means: the member `sandbox` of its requests. It says which paths may be read, written, or neither,
 * and whether there is a network; the executor makes a sandbox of it.
 *
 * Here it can only *narrow*. bailiff's policy has a profile, which says what an agent gets at most;
 * sandbox_intent_narrow adds to a request for that profile whatever makes it at least as tight as the intent: write
 * roots that the intent does not let be written become read-only (but for what it does in them), paths that it denies
 * are hidden, the network goes. What the intent would allow beyond the profile is not asked for, so that nothing that a
 * client says gives more than policy does. What is not understood is refused.
 *
 * As with Codex's own sandbox the deepest entry about a path decides; of several about the same one, deny before write
 * before read. What is denied can be opened again in a part for writing, but not for reading. A path that is to be
 * read-only in a writable folder and does not exist cannot be made either. In folders that may be written .git, .agents
 * and .codex are read-only without being named.
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
}; /* in the order in which they win */

struct sandbox_intent_entry {
	char *path;
	enum sandbox_intent_access access;
};

struct sandbox_intent {
	bool given;      /* false: Codex leaves it to us ("danger-full-access") */
	bool restricted; /* only what the entries say */
	bool network;
	bool minimal;                    /* the system's programs and libraries can be read */
	enum sandbox_intent_access root; /* of what no entry speaks of */
	char *cwd;                       /* NULL: not given */
	char **roots;                    /* the workspace roots */
	size_t nroots;
	struct sandbox_intent_entry *entry;
	size_t count;
	char **glob; /* absolute patterns of files that are denied */
	size_t nglobs;
};

/* `sandbox` may be NULL or null. `cwd`: of the request, where the intent has none; or NULL. ERR_INVALID with the field.
 */
int sandbox_intent_of(const json_t *sandbox, const char *cwd, struct sandbox_intent *ret, struct err *e);
void sandbox_intent_done(struct sandbox_intent *i);
#define sandbox_intent_auto __attribute__((cleanup(sandbox_intent_done)))

/* The root of the workspace that holds the folder, or NULL: what start_process is to take for the working tree. */
const char *sandbox_intent_workspace(const struct sandbox_intent *i, const char *cwd);
enum sandbox_intent_access sandbox_intent_access(const struct sandbox_intent *i, const char *path);
/*
 * Adds readRoots, writeRoots, hidden and network to `sandbox`, an object for start_process. `profile`: get_sandbox's
 * sandboxProfile of the same place. ERR_INVALID: it cannot be made as tight as that.
 */
int sandbox_intent_narrow(const struct sandbox_intent *i, const json_t *profile, json_t *sandbox, struct err *e);

#endif
