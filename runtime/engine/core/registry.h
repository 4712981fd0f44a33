#ifndef BAILIFF_ENGINE_REGISTRY_H
#define BAILIFF_ENGINE_REGISTRY_H

/*
 * What models and MCP servers have in common: each uid registers its own under names that it chooses. They are facts
 * and documents with the key view_model_key(uid, name). They refer to secrets by the paths of files, which are read
 * only inside of sandboxes, as the user; the runtime never has a secret.
 */

#include "runtime/engine/core/core.h"
#include "runtime/view/view_ids.h"

#include <stdbool.h>

/* 0, 1 = not there, −1. Reads what is submitted and not durable yet, too. */
int registry_read(struct engine *engine, const struct view_schema *schema, uint32_t uid, const char *name,
		  struct buf *text, void *ret, struct err *e);
/* The names that the uid has registered. */
int registry_names(struct engine *engine, enum view_kind kind, uint32_t uid, unsigned max, struct view_ids *ret,
		   struct err *e);
struct scope registry_scope(struct engine *engine, uint32_t uid, const char *request_id, const char *trace_id);

/* ---- what is registered ---- */

/* Whether a word of it has the form of the common providers' keys. */
bool registry_contains_key(const char *s);
/*
 * The absolute path of a file; *ret is NULL if none is given. Messages do not repeat what was given: it may be a key.
 */
int registry_file(const char *field, const char *given, const char *what, char **ret, struct err *e);
/*
 * The URL without slashes at its end, and its host with the port, as a sandbox's rules name it. http only to this
 * machine, or with `insecure`.
 */
int registry_url(const char *field, const char *given, bool insecure, char **ret_url, char **ret_host, struct err *e);
/* Root's sandboxes read these files also after the client has disconnected (sandbox_setup.h); NULLs are skipped. */
void registry_authorise(struct engine *engine, const struct caller *c, const char *const *files, size_t n);

#endif
