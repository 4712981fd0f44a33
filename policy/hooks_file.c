/*
 * Parses the hooks of a policy file. Existing files are accepted unchanged: events that bailiff does not have, and
 * unknown members, are noted and ignored. A hook that would be run in a wrong way is rejected, with its line.
 */

#include "policy/hooks.h"
#include "policy/http_url.h"
#include "policy/policy_text.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MATCHER_MAX 512u
#define TIMEOUT_MAX_S 3600.0

struct hook_reading {
	struct policy_hooks *hooks;
	enum rule_layer layer;
	const char *name, *text;
	char field[ERR_FIELD_MAX];
	const char *at; /* current position in the text */
	enum hook_point point;
	const char *matcher;
	char hash[HASH_SHA256_TEXT]; /* of a workspace's file */
	bool trusted;
};

static unsigned line_of(const struct hook_reading *f)
{
	unsigned line = 1;

	for (const char *s = f->text; f->at && s < f->at; s++)
		line += *s == '\n';
	return line;
}

__attribute__((format(printf, 3, 4))) static int set_error(const struct hook_reading *f, struct err *e, const char *fmt,
							   ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	return err_field(e, f->field, "%.80s: line %u: %s: %s", f->name, line_of(f), f->field, why);
}

__attribute__((format(printf, 2, 3))) static void add_note(const struct hook_reading *f, const char *fmt, ...)
{
	struct policy_hooks *s = f->hooks;
	char what[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	s->note = mem_realloc(s->note, (s->nnotes + 1) * sizeof *s->note);
	s->note[s->nnotes++] = mem_printf("%s: line %u: %s: %s", f->name, line_of(f), f->field, what);
}

/* Also for a hook that was read only in part. */
static void hook_free(struct policy_hook *h)
{
	if (h->matcher && !h->exact)
		regfree(&h->regex);
	free(h->matcher);
	free(h->only);
	policy_rules_done(&h->rule);
	free(h->command);
	free(h->url);
	free(h->headers);
	free(h->host);
	for (size_t i = 0; i < h->nargs; i++)
		free(h->arg[i]);
	free(h->arg);
	for (size_t i = 0; i < h->nenv; i++)
		free(h->env[i]);
	free(h->env);
	free(h->profile);
	free(h);
}

/* ---- one hook ---- */

static bool is_text(const json_t *v, size_t most)
{
	return json_is_string(v) && json_string_length(v) <= most &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

/* Copies an array of strings; on failure the caller's hook_free releases what was copied. */
static int read_strings(struct hook_reading *f, const json_t *list, const char *key, char ***ret, size_t *ret_n,
			struct err *e)
{
	const json_t *v;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > HOOK_NAMES_MAX)
		return set_error(f, e, "%s must be an array of at most %u strings", key, HOOK_NAMES_MAX);
	*ret = mem_zalloc(json_array_size(list) + 1, sizeof **ret);
	json_array_foreach (list, i, v) {
		if (!is_text(v, HOOK_COMMAND_MAX))
			return set_error(f, e, "%s[%zu] must be a string", key, i);
		(*ret)[(*ret_n)++] = mem_strdup(json_string_value(v));
	}
	return 0;
}

/* Hooks that run a model or a tool cannot be run here, and must not be ignored: they may deny. */
static int read_type(struct hook_reading *f, const json_t *v, bool *ret_http, struct err *e)
{
	const char *type = json_string_value(json_object_get(v, "type"));

	if (!type)
		return set_error(f, e, "type is missing; it must be \"command\" or \"http\"");
	*ret_http = strcmp(type, "http") == 0;
	if (strcmp(type, "command") == 0 || (*ret_http && f->layer != RULE_OF_WORKSPACE))
		return 0;
	if (*ret_http)
		return set_error(f, e,
				 "type \"http\" is not available in a workspace's file, whose hooks have no network");
	if (strcmp(type, "prompt") == 0 || strcmp(type, "agent") == 0 || strcmp(type, "mcp_tool") == 0)
		return set_error(f, e, "type \"%s\" is unavailable: use \"command\" or \"http\", or remove the entry",
				 type);
	return set_error(f, e, "type must be \"command\" or \"http\"");
}

/* ---- http hooks ---- */

static int read_url(struct hook_reading *f, const json_t *v, struct policy_hook *h, struct err *e)
{
	const char *url = json_string_value(v);
	struct err inner = ERR_INIT;
	struct http_url parsed;

	if (!is_text(v, HOOK_URL_MAX))
		return set_error(f, e, "url must be a string of at most %u bytes", HOOK_URL_MAX);
	if (http_url_parse(url, &parsed, &inner) < 0)
		return set_error(f, e, "url %.180s", inner.message);
	h->host = parsed.host;
	h->url = mem_strdup(url);
	/* The query string may contain a secret. */
	h->command = mem_printf("POST %.*s", (int)strcspn(url, "?#"), url);
	return 0;
}

/* Headers may contain ${NAME}, which bailiff-webhook replaces; here only their form is checked. */
static int read_headers(struct hook_reading *f, const json_t *v, struct policy_hook *h, struct err *e)
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
	const char *name;
	json_t *value;

	if (v && (!json_is_object(v) || json_object_size(v) > HOOK_NAMES_MAX))
		return set_error(f, e, "headers must be an object of at most %u texts", HOOK_NAMES_MAX);
	json_object_foreach ((json_t *)(uintptr_t)v, name, value) {
		if (!*name || name[strspn(name, token)])
			return set_error(f, e, "headers: '%.60s' is not a valid header name", name);
		if (!is_text(value, HOOK_COMMAND_MAX) || strpbrk(json_string_value(value), "\r\n"))
			return set_error(f, e, "headers: '%.60s' must be one line of text", name);
	}
	h->headers = v ? json_dumps(v, JSON_COMPACT) : mem_strdup("{}");
	if (!h->headers || strlen(h->headers) > HOOK_HEADERS_MAX)
		return set_error(f, e, "headers are longer than %u bytes together", HOOK_HEADERS_MAX);
	for (size_t i = 0; i < h->nenv; i++)
		if (strncmp(h->env[i], "BAILIFF_HOOK_", 13) == 0 || strchr(h->env[i], ','))
			return set_error(f, e, "allowedEnvVars: '%.60s' is not a variable name that a hook may read",
					 h->env[i]);
	return 0;
}

static int read_timeout(struct hook_reading *f, const json_t *v, uint64_t *ret, struct err *e)
{
	if (!v)
		return 0;
	if (!json_is_number(v) || json_number_value(v) < 0.001 || json_number_value(v) > TIMEOUT_MAX_S)
		return set_error(f, e, "timeout must be a number of seconds above 0, at most %.0f", TIMEOUT_MAX_S);
	*ret = (uint64_t)(json_number_value(v) * 1000);
	return 0;
}

static int read_on_failure(struct hook_reading *f, const json_t *v, enum hook_on_failure *ret, struct err *e)
{
	const char *s = json_string_value(v);

	if (!v)
		return 0;
	if (!s || (strcmp(s, "allow") != 0 && strcmp(s, "block") != 0))
		return set_error(f, e, "onFailure must be \"allow\" or \"block\"");
	*ret = strcmp(s, "allow") == 0 ? HOOK_FAILS_OPEN : HOOK_FAILS_CLOSED;
	return 0;
}

/* `if`: a rule, stored as a set with one deny rule. */
static int read_condition(struct hook_reading *f, const json_t *v, struct policy_hook *h, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	struct err inner = ERR_INIT;

	if (!v)
		return 0;
	if (!is_text(v, RULE_TEXT_MAX))
		return set_error(f, e, "if must be a rule such as \"Bash(git *)\"");
	const char *rule = json_string_value(v);
	jw_obj(&w);
	jw_kobj(&w, "permissions");
	jw_kstrv(&w, "deny", &rule, 1);
	jw_obj_end(&w);
	jw_obj_end(&w);
	if (policy_rules_parse(&h->rule, f->layer, f->name, text.data, text.len, &inner) < 0)
		return set_error(f, e, "if: '%.100s' is not a valid rule; example: \"Bash(git *)\"", rule);
	h->only = mem_strdup(rule);
	return 0;
}

/* The sandbox and the shell of the hook. A workspace may choose only among profiles that are no wider. */
static int read_where(struct hook_reading *f, const json_t *v, const char *usual, struct policy_hook *h, struct err *e)
{
	const json_t *profile = json_object_get(v, "profile") ? json_object_get(v, "profile")
							      : json_object_get(v, "sandbox");
	const json_t *shell = json_object_get(v, "shell");
	const char *reads = shell ? json_string_value(shell) : "bash";

	if (profile && (!is_text(profile, 64) || !json_string_length(profile)))
		return set_error(f, e, "profile must be the name of a sandbox profile");
	if (!reads || (strcmp(reads, "bash") != 0 && strcmp(reads, "sh") != 0))
		return set_error(f, e, "shell must be \"bash\" or \"sh\"");
	h->shell = strcmp(reads, "sh") == 0 ? "/bin/sh" : "/bin/bash";
	const char *name = profile ? json_string_value(profile) : usual;
	if (f->layer == RULE_OF_WORKSPACE && strcmp(name, HOOK_PROFILE) != 0 && strcmp(name, "readonly") != 0 &&
	    strcmp(name, "isolated") != 0) {
		add_note(f, "a workspace may only tighten: profile '%.64s' is ignored", name);
		name = HOOK_PROFILE;
	}
	h->profile = mem_strdup(name);
	return 0;
}

/* Unknown members are noted, because files of other programs have more of them. */
static void note_members(struct hook_reading *f, const json_t *v)
{
	static const char *const known[] = { "type",    "command",   "args",          "if",
					     "timeout", "onFailure", "async",         "shell",
					     "profile", "sandbox",   "env",           "allowedEnvVars",
					     "url",     "headers",   "statusMessage", "description",
					     "name" };
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)v, key, value) {
		bool found = false;

		for (size_t i = 0; i < countof(known); i++)
			found |= strcmp(known[i], key) == 0;
		if (!found)
			add_note(f, "'%.60s' is ignored", key);
	}
}

/* Reads the members of one hook, commands and http. */
static int fill_hook(struct hook_reading *f, const json_t *v, struct policy_hook *h, struct err *e)
{
	const json_t *command = json_object_get(v, "command"), *args = json_object_get(v, "args"),
		     *async = json_object_get(v, "async");
	const json_t *env = json_object_get(v, "env") ? json_object_get(v, "env")
						      : json_object_get(v, "allowedEnvVars");
	bool http = false;

	if (!json_is_object(v))
		return set_error(f, e, "must be an object");
	if (env && f->layer == RULE_OF_WORKSPACE) {
		add_note(f, "a workspace may only tighten: allowedEnvVars is ignored");
		env = NULL;
	}
	if (read_type(f, v, &http, e) < 0)
		return -1;
	if (!http && (!is_text(command, HOOK_COMMAND_MAX) || !json_string_length(command)))
		return set_error(f, e, "command must be a string of 1 to %u bytes", HOOK_COMMAND_MAX);
	if (!http)
		h->command = mem_strdup(json_string_value(command));
	args = http ? NULL : args;
	h->has_args = args != NULL;
	if (async && !json_is_boolean(async))
		return set_error(f, e, "async must be true or false");
	h->async = json_is_true(async);
	if ((args && read_strings(f, args, "args", &h->arg, &h->nargs, e) < 0) ||
	    (env && read_strings(f, env, "env", &h->env, &h->nenv, e) < 0) ||
	    read_timeout(f, json_object_get(v, "timeout"), &h->timeout_ms, e) < 0 ||
	    read_on_failure(f, json_object_get(v, "onFailure"), &h->on_failure, e) < 0 ||
	    read_condition(f, json_object_get(v, "if"), h, e) < 0 ||
	    read_where(f, v, http ? HOOK_HTTP_PROFILE : HOOK_PROFILE, h, e) < 0)
		return -1;
	if (http && (read_url(f, json_object_get(v, "url"), h, e) < 0 ||
		     read_headers(f, json_object_get(v, "headers"), h, e) < 0))
		return -1;
	note_members(f, v);
	return 0;
}

/* ---- matchers ---- */

/* Translates syntax of regular expressions in other languages to POSIX. */
static void translate_matcher(const char *s, struct buf *out)
{
	for (; *s; s++)
		if (s[0] == '\\' && s[1] == 'd')
			buf_str(out, "[0-9]"), s++;
		else if (s[0] == '\\' && s[1])
			buf_append(out, s++, 2);
		else if (strncmp(s, "(?:", 3) == 0)
			buf_byte(out, '('), s += 2;
		else
			buf_byte(out, *s);
}

/* A matcher of plain names is compared as names; anything else is a regular expression. */
static int set_matcher(struct hook_reading *f, struct policy_hook *h, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	char why[100];
	int r;

	if (!f->matcher || !*f->matcher || strcmp(f->matcher, "*") == 0)
		return 0;
	h->exact =
		!f->matcher[strspn(f->matcher, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-|, ")];
	/*
	 * Nested counted repetitions can use up all memory in regcomp, and anyone may have written a workspace's file.
	 */
	if (strpbrk(f->matcher, "{}"))
		return set_error(f, e, "matcher: '{' and '}' are not supported in regular expressions");
	for (const char *s = f->matcher; *s; s++)
		if (s[0] == '\\' && s[1] && strchr("123456789", s[1]))
			return set_error(f, e, "matcher: back-references are not supported in regular expressions");
	if (!h->exact) {
		translate_matcher(f->matcher, &text);
		r = regcomp(&h->regex, text.data, REG_EXTENDED | REG_NOSUB);
		if (r) {
			regerror(r, &h->regex, why, sizeof why);
			return set_error(f, e, "matcher '%.100s' is not a valid regular expression: %s", f->matcher,
					 why);
		}
	}
	h->matcher = mem_strdup(f->matcher);
	return 0;
}

/* ---- the file ---- */

static int read_hook(struct hook_reading *f, const json_t *v, struct err *e)
{
	struct policy_hooks *s = f->hooks;
	struct policy_hook *h = mem_zalloc(1, sizeof *h);

	*h = (struct policy_hook){ .point = f->point,
				   .layer = f->layer,
				   .file = s->file[s->nfiles - 1],
				   .line = line_of(f),
				   .timeout_ms = HOOK_TIMEOUT_MS,
				   .rule = RULES_INIT,
				   .trusted = f->trusted };
	memcpy(h->hash, f->hash, sizeof h->hash);
	/* No hook is ever left out silently: more hooks than can run for one step are rejected here. */
	const bool full = s->count >= HOOKS_MAX || s->at[f->point] >= HOOKS_SELECTED_MAX;
	if (full)
		(void)set_error(f, e, "there are more than %u hooks, or more than %u of them at %s", HOOKS_MAX,
				HOOKS_SELECTED_MAX, hook_point_event(f->point));
	if (full || set_matcher(f, h, e) < 0 || fill_hook(f, v, h, e) < 0) {
		hook_free(h);
		return -1;
	}
	s->hook = mem_realloc(s->hook, (s->count + 1) * sizeof(struct policy_hook *));
	s->hook[s->count++] = h;
	s->at[h->point]++;
	return 0;
}

/* One {matcher, hooks}. `where` is the same element in the text, for line numbers. */
static int read_group(struct hook_reading *f, const char *event, size_t index, const json_t *v, struct jval where,
		      struct err *e)
{
	const json_t *matcher = json_object_get(v, "matcher"), *list = json_object_get(v, "hooks"), *h;
	struct jiter it = jiter_on(jval_get(where, "hooks"));
	size_t i;

	snprintf(f->field, sizeof f->field, "hooks.%.24s[%u]", event, (unsigned)index);
	f->at = where.text;
	if (!json_is_object(v))
		return set_error(f, e, "must be an object {matcher?, hooks}");
	if (matcher && !is_text(matcher, MATCHER_MAX))
		return set_error(f, e, "matcher must be a string of at most %u bytes", MATCHER_MAX);
	if (!json_is_array(list))
		return set_error(f, e, "hooks must be an array of hooks");
	f->matcher = json_string_value(matcher);
	json_array_foreach (list, i, h) {
		if (jiter_next(&it))
			f->at = it.value.text;
		snprintf(f->field, sizeof f->field, "hooks.%.18s[%u].hooks[%u]", event, (unsigned)index, (unsigned)i);
		if (read_hook(f, h, e) < 0)
			return -1;
	}
	return 0;
}

/* Events of the conventions that have no equivalent in bailiff. */
static bool is_foreign(const char *event)
{
	static const char *const events[] = {
		"Notification",   "SubagentStart",      "SubagentStop", "PreCompact",
		"PostCompact",    "SessionEnd",         "Setup",        "InstructionsLoaded",
		"ConfigChange",   "TeammateIdle",       "TaskCreated",  "TaskCompleted",
		"WorktreeCreate", "WorktreeRemove",     "Elicitation",  "ElicitationResult",
		"StopFailure",    "CwdChanged",         "FileChanged",  "PermissionDenied",
		"PostToolBatch",  "UserPromptExpansion"
	};

	for (size_t i = 0; i < countof(events); i++)
		if (strcmp(events[i], event) == 0)
			return true;
	return false;
}

/* The hooks of one point. */
static int read_event(struct hook_reading *f, const char *event, const json_t *list, struct jval where, struct err *e)
{
	struct jiter it = jiter_on(where);
	int point = hook_point_find(event);
	const json_t *v;
	size_t i;

	snprintf(f->field, sizeof f->field, "hooks.%.40s", event);
	f->at = where.text;
	if (point < 0 && is_foreign(event)) {
		add_note(f, "bailiff has no such hook point; these hooks never run");
		return 0;
	}
	if (point < 0) {
		buf_auto struct buf names = BUF_INIT;

		for (int k = 0; k < HOOK_POINTS; k++)
			buf_printf(&names, "%s%s", k ? ", " : "", hook_point_event((enum hook_point)k));
		return set_error(f, e, "unknown hook point; expected one of %s", buf_cstr(&names));
	}
	f->point = (enum hook_point)point;
	if (!json_is_array(list))
		return set_error(f, e, "must be an array of {matcher?, hooks}");
	json_array_foreach (list, i, v)
		if (read_group(f, event, i, v, jiter_next(&it) ? it.value : where, e) < 0)
			return -1;
	return 0;
}

static int read_hooks(struct hook_reading *f, const json_t *root, struct jval where, struct err *e)
{
	const char *event;
	json_t *v;

	snprintf(f->field, sizeof f->field, "hooks");
	f->at = where.text;
	if (!root)
		return 0;
	if (!json_is_object(root))
		return set_error(f, e, "must be an object");
	json_object_foreach ((json_t *)(uintptr_t)root, event, v)
		if (read_event(f, event, v, jval_get(where, event), e) < 0)
			return -1;
	return 0;
}

/* ---- trust ---- */

static int read_trusted(struct hook_reading *f, const json_t *list, struct jval where, struct err *e)
{
	struct policy_hooks *s = f->hooks;
	const json_t *v;
	size_t i;

	snprintf(f->field, sizeof f->field, "trustedHooks");
	f->at = where.text;
	if (!list)
		return 0;
	if (f->layer == RULE_OF_WORKSPACE) {
		add_note(f, "a workspace may only tighten: trustedHooks is ignored");
		return 0;
	}
	if (!json_is_array(list) || s->ntrusted + json_array_size(list) > HOOKS_TRUSTED_MAX)
		return set_error(f, e, "must be an array of at most %u hashes", HOOKS_TRUSTED_MAX);
	s->trusted = mem_realloc(s->trusted, (s->ntrusted + json_array_size(list) + 1) * sizeof *s->trusted);
	json_array_foreach (list, i, v) {
		const char *hash = json_string_value(v);

		if (!hash || strlen(hash) != HASH_SHA256_TEXT - 1 ||
		    strspn(hash, "0123456789abcdef") != HASH_SHA256_TEXT - 1)
			return set_error(
				f, e, "[%zu] must be the SHA-256 of a .bailiff/policy.json, as sha256sum prints it", i);
		memcpy(s->trusted[s->ntrusted++], hash, HASH_SHA256_TEXT);
	}
	return 0;
}

/* A workspace's file is identified by its hash, so an edit withdraws the trust. */
static void find_trust(struct hook_reading *f, size_t len)
{
	if (f->layer != RULE_OF_WORKSPACE)
		return;
	hash_sha256_text(f->text, len, f->hash);
	for (size_t i = 0; i < f->hooks->ntrusted; i++)
		f->trusted |= strcmp(f->hooks->trusted[i], f->hash) == 0;
}

int policy_hooks_parse(struct policy_hooks *s, enum rule_layer layer, const char *name, const char *text, size_t len,
		       struct err *e)
{
	struct hook_reading f = { .hooks = s, .layer = layer, .name = name, .text = text };
	const size_t count = s->count, nnotes = s->nnotes, ntrusted = s->ntrusted;

	json_auto_t *root = policy_text_load(name, text, len, POLICY_TEXT_MAX, e);
	if (!root)
		return -1;
	const char *open = memchr(text, '{', len);
	struct jval all = jval_of(open, len - (size_t)(open - text));
	s->file = mem_realloc(s->file, (s->nfiles + 1) * sizeof *s->file);
	s->file[s->nfiles++] = mem_strdup(name);
	find_trust(&f, len);
	if (read_trusted(&f, json_object_get(root, "trustedHooks"), jval_get(all, "trustedHooks"), e) == 0 &&
	    read_hooks(&f, json_object_get(root, "hooks"), jval_get(all, "hooks"), e) == 0)
		return 0;
	s->ntrusted = ntrusted;
	while (s->count > count) {
		s->at[s->hook[--s->count]->point]--;
		hook_free(s->hook[s->count]);
	}
	while (s->nnotes > nnotes)
		free(s->note[--s->nnotes]);
	return -1;
}

void policy_hooks_done(struct policy_hooks *s)
{
	for (size_t i = 0; i < s->count; i++)
		hook_free(s->hook[i]);
	free(s->hook);
	for (size_t i = 0; i < s->nnotes; i++)
		free(s->note[i]);
	free(s->note);
	for (size_t i = 0; i < s->nfiles; i++)
		free(s->file[i]);
	free(s->file);
	free(s->trusted);
	*s = (struct policy_hooks){ 0 };
}
