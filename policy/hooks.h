#ifndef BAILIFF_POLICY_HOOKS_H
#define BAILIFF_POLICY_HOOKS_H

/*
 * The hooks of the policy files, in the shape that people already have them:
 *
 *   "hooks": { "PreToolUse": [{ "matcher": "Bash|Write", "hooks": [
 *       { "type": "command", "command": "./check.sh", "args"?: […], "if"?: "Bash(git *)", "timeout"?: 60,
 *         "onFailure"?: "block",
 *         "async"?: false, "shell"?: "bash", "profile"?: "hook", "env"?: ["NAME"] },
 *       { "type": "http", "url": "https://host/path", "headers"?: {"Authorization": "Bearer ${TOKEN}"},
 *         "allowedEnvVars"?: ["TOKEN"], … }] }] }
 *
 * Which of them a step of the work selects is decided here; running them is the engine's (runtime/engine/hook/hook.h),
 * and what they answer is read in hook_answer.h. A workspace's file may only tighten: what its hooks allow or rewrite
 * does not count. They are programs of whoever wrote the repository; "trustedHooks": [SHA-256 of such a file, …] of the
 * host or the user says that they may run where nothing unknown may (mode untrusted).
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
int hook_point_find(const char *name);           /* by either name; −1 = there is none */
bool hook_point_closed(enum hook_point p);

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
	const char *file; /* its owner's */
	unsigned line;
	char *matcher; /* as the file has it; NULL = everything */
	bool exact;    /* names, with | between them; otherwise a regular expression */
	regex_t regex;
	char *only;               /* `if`, or NULL … */
	struct policy_rules rule; /* … as the only rule of a set */
	char *command;            /* of one that is sent: what people see of it */
	char *url, *headers;      /* it is sent there, with these (a JSON object); NULL = it is run */
	char *host;               /* that its sandbox may then reach: "host:port" */
	char **arg;               /* given: the command is a program, not a line for a shell */
	size_t nargs;
	bool has_args;
	const char *shell; /* that reads the line */
	char **env;        /* of what the command was given, these variables are the hook's, too */
	size_t nenv;
	char *profile;
	uint64_t timeout_ms;
	enum hook_on_failure on_failure;
	bool async;                  /* nobody waits for it */
	char hash[HASH_SHA256_TEXT]; /* of a workspace's file … */
	bool trusted;                /* … for which the host's or the user's vouches */
};
/* Whether a failure of it refuses. */
bool policy_hook_closed(const struct policy_hook *h);
/* {"file":…,"line":…,"rule":"PreToolUse(Bash) ./check.sh","layer":…}, as rules are told */
void policy_hook_text(const struct policy_hook *h, struct buf *out); /* just "PreToolUse(Bash) ./check.sh" */

struct policy_hooks {
	struct policy_hook **hook; /* the more important layer first, in the order of the files */
	size_t count;
	size_t at[HOOK_POINTS]; /* how many there are of each */
	char **file;            /* all, which hooks point to */
	size_t nfiles;
	char **note;
	size_t nnotes;
	char (*trusted)[HASH_SHA256_TEXT];
	size_t ntrusted;
};

/* On failure nothing of the file is taken. */
int policy_hooks_parse(struct policy_hooks *s, enum rule_layer layer, const char *file, const char *text, size_t len,
		       struct err *e);
void policy_hooks_done(struct policy_hooks *s);

struct hook_query {
	enum hook_point point;
	const char *const *name; /* of the tool in every spelling, or how the session began */
	size_t nnames;
	const struct rules_query *use; /* for `if`; NULL = there is no tool, and such hooks are not meant */
};
#define HOOKS_SELECTED_MAX 64u
/* The hooks that are meant; one that stands there twice runs once. Returns how many. */
size_t policy_hooks_select(const struct policy_hooks *s, const struct hook_query *q,
			   const struct policy_hook *ret[HOOKS_SELECTED_MAX]);

#endif
