#ifndef BAILIFF_POLICY_HOOKS_H
#define BAILIFF_POLICY_HOOKS_H

/*
 * The hooks of the policy files, in the format of the existing conventions:
 *
 *   "hooks": { "PreToolUse": [{ "matcher": "Bash|Write", "hooks": [
 *       { "type": "command", "command": "./check.sh", "args"?: […], "if"?: "Bash(git *)", "timeout"?: 60,
 *         "onFailure"?: "block",
 *         "async"?: false, "shell"?: "bash", "profile"?: "hook", "env"?: ["NAME"] },
 *       { "type": "http", "url": "https://host/path", "headers"?: {"Authorization": "Bearer ${TOKEN}"},
 *         "allowedEnvVars"?: ["TOKEN"], … }] }] }
 *
 * This module selects the hooks of a step. The engine runs them (runtime/engine/hook/hook.h); hook_answer.h parses
 * their answers. A workspace's file may only tighten: if its hooks allow or rewrite something, that is ignored. Such
 * hooks are programs written by the authors of the repository. "trustedHooks": [SHA-256 of such a file, …] in the
 * host's or the user's file permits them to run even in mode untrusted, where no unknown program runs.
 */

#include "policy/rules.h"
#include "runtime/base/hash.h"

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct jw;

enum hook_point {
#define HOOK_POINT(NAME, ...) HOOK_##NAME,
#include "policy/hook_points.def"
#undef HOOK_POINT
	HOOK_POINTS
};
const char *hook_point_name(enum hook_point p);  /* pre_tool_use */
const char *hook_point_event(enum hook_point p); /* PreToolUse */
int hook_point_find(const char *name);           /* by either name; −1 = unknown */

#define HOOKS_MAX 1000u
#define HOOKS_TRUSTED_MAX 1000u
#define HOOK_COMMAND_MAX 8192u
#define HOOK_NAMES_MAX 64u
#define HOOK_TIMEOUT_MS 60000u
#define HOOK_PROFILE "hook"
#define HOOK_HTTP_PROFILE "isolated"
#define HOOK_URL_MAX 2048u
#define HOOK_HEADERS_MAX 16384u

enum hook_on_failure { HOOK_FAILS_AS_USUAL, HOOK_FAILS_OPEN, HOOK_FAILS_CLOSED };

struct policy_hook {
	enum hook_point point;
	enum rule_layer layer;
	const char *file; /* owned by the set */
	unsigned line;
	char *matcher; /* as written; NULL = matches everything */
	bool exact;    /* names separated by |; otherwise a regular expression */
	regex_t regex;
	char *only;               /* `if`, or NULL … */
	struct policy_rules rule; /* … as the only rule of a set */
	char *command;            /* of an http hook: the text that is shown for it */
	char *url, *headers;      /* where an http hook is sent, with these headers (a JSON object); NULL = a command */
	char *host;               /* "host:port" that its sandbox may connect to */
	char **arg;               /* if given, the command is a program and not a line for a shell */
	size_t nargs;
	bool has_args;
	const char *shell; /* the shell that runs the line */
	char **env;        /* variables of the command's environment that the hook gets as well */
	size_t nenv;
	char *profile;
	uint64_t timeout_ms;
	enum hook_on_failure on_failure;
	bool async;                  /* it is not waited for */
	char hash[HASH_SHA256_TEXT]; /* of a workspace's file … */
	bool trusted;                /* … that the host's or the user's file trusts */
};
/* Whether a failure of the hook denies. */
bool policy_hook_closed(const struct policy_hook *h);
void policy_hook_text(const struct policy_hook *h, struct buf *out); /* "PreToolUse(Bash) ./check.sh" */

struct policy_hooks {
	struct policy_hook **hook; /* sorted by layer, the most important first, then in the order of the files */
	size_t count;
	size_t at[HOOK_POINTS]; /* number of hooks at each point */
	char **file;            /* names of all files; hooks point to them */
	size_t nfiles;
	char **note;
	size_t nnotes;
	char (*trusted)[HASH_SHA256_TEXT];
	size_t ntrusted;
};

/* On failure nothing of the file is added. */
int policy_hooks_parse(struct policy_hooks *s, enum rule_layer layer, const char *file, const char *text, size_t len,
		       struct err *e);
void policy_hooks_done(struct policy_hooks *s);

struct hook_query {
	enum hook_point point;
	const char *const *name; /* the tool under each of its names, or how the session began */
	size_t nnames;
	const struct rules_query *use; /* for `if`; NULL = there is no tool, and hooks with `if` are not selected */
};
#define HOOKS_SELECTED_MAX 64u
/* Selects the matching hooks; duplicates run once. Returns how many. */
size_t policy_hooks_select(const struct policy_hooks *s, const struct hook_query *q,
			   const struct policy_hook *ret[HOOKS_SELECTED_MAX]);

#endif
