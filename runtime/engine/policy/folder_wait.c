/*
 * A request that sets up sandboxes before it is answered, or only describes them, waits here until the folders that it
 * names were searched and their policy files were read.
 */

#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"

#include <jansson.h>

#define DEPTH_MAX 8u /* of objects that may name a folder */

struct folder_walk {
	struct engine *engine;
	const struct caller *caller;
	uint64_t since_ns;
	char folder[PATH_MAX];
};

/* 1: the policy files of the workspace are being read. An error is left to the request, which finds it again. */
static int look_up_rules(struct folder_walk *w, const struct sandbox_request *r)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	const struct policy_rules *rules;
	struct err e = ERR_INIT;

	return sandbox_setup_make(w->engine, r, w->caller, &f, &e) == 0 &&
	       policy_lookup_rules(w->engine, &f, r, w->caller, w->since_ns, &rules, &e) > 0 &&
	       policy_lookup_find_workspace(w->engine, &f, r, w->caller, w->folder, &e) == 0;
}

/* 1: the folder of this object, or of one in it, is being searched. */
static int look_up_folders(struct folder_walk *w, const json_t *at, unsigned depth, struct err *e)
{
	const struct sandbox_request r = {
		.profile = json_string_value(json_object_get(at, "profile")),
		.cwd = json_string_value(json_object_get(at, "cwd")),
		.workspace = json_string_value(json_object_get(json_object_get(at, "sandbox"), "workspace")),
	};
	int found = r.cwd ? sandbox_setup_lookup(w->engine, &r, w->caller, w->since_ns, w->folder, e) : 0;
	const char *key;
	const json_t *value;
	size_t i;

	if (found == 0 && r.cwd)
		found = look_up_rules(w, &r);
	if (found || depth == DEPTH_MAX)
		return found;
	if (json_is_array(at)) {
		json_array_foreach (at, i, value)
			if ((found = look_up_folders(w, value, depth + 1, e)))
				return found;
		return 0;
	}
	json_object_foreach ((json_t *)(uintptr_t)at, key, value)
		if ((json_is_object(value) || json_is_array(value)) &&
		    (found = look_up_folders(w, value, depth + 1, e)))
			return found;
	return 0;
}

int engine_await_folders(struct engine *engine, const struct json_t *params, const struct caller *c, uint64_t since_ns,
			 void (*go)(struct engine *engine, void *ctx), void *ctx, struct err *e)
{
	struct folder_walk w = { .engine = engine, .caller = c, .since_ns = since_ns };
	int found = look_up_folders(&w, params, 0, e);

	if (found > 0)
		policy_lookup_await(engine, c->uid, w.folder, go, ctx);
	return found;
}
