#include "supervisor/gateway/codex/sandbox_intent.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "supervisor/gateway/common/file_uri.h"

#include <stdint.h>
#include <string.h>

/* Queries are linear in the entries, and narrowing makes one for each path that it visits. */
#define ENTRIES_MAX 256u
#define ROOTS_MAX 16u

/* The index of s in `words`; −1 if it is not there. */
static int word_of(const char *s, const char *const *words, size_t n)
{
	for (size_t i = 0; s && i < n; i++)
		if (strcmp(s, words[i]) == 0)
			return (int)i;
	return -1;
}

static int reject_field(struct err *e, size_t i, const char *fmt, const char *what)
{
	char field[ERR_FIELD_MAX];

	(void)snprintf(field, sizeof(field), "sandbox.permissions.file_system.entries[%zu]", i);
	return err_field(e, field, fmt, what ? what : "nothing");
}

/* Unknown members are rejected: one might restrict something that we would allow. Returns its name, or NULL. */
static const char *unknown_member(const json_t *o, const char *known)
{
	const char *name;
	json_t *v;

	json_object_foreach ((json_t *)o, name, v) {
		size_t n = strlen(name);
		const char *at = n ? strstr(known, name) : NULL;

		/* "path" is also found inside "subpath": look for a whole word. */
		while (at && ((at > known && at[-1] != ' ') || (at[n] && at[n] != ' ')))
			at = strstr(at + 1, name);
		if (!json_is_null(v) && (!at || strchr(name, ' ')))
			return name;
	}
	return NULL;
}

/* ---- directories ---- */

static int read_uri(const json_t *v, const char *field, char **ret, struct err *e)
{
	const char *s = json_string_value(v);
	char path[PATH_MAX];
	struct err inner = ERR_INIT;

	if (!s)
		return err_field(e, field, "expected a file: URI");
	if (file_uri_path(s, path, &inner) < 0)
		return err_field(e, field, "%s", inner.message);
	*ret = mem_strdup(path);
	return 0;
}

static int read_directories(const json_t *sandbox, const char *cwd, struct sandbox_intent *t, struct err *e)
{
	const json_t *roots = json_object_get(sandbox, "workspaceRoots"), *v = json_object_get(sandbox, "cwd");
	size_t n = json_array_size(roots);

	if (json_is_null(v) || !v)
		t->cwd = mem_strdup(cwd);
	else if (read_uri(v, "sandbox.cwd", &t->cwd, e) < 0)
		return -1;
	if (roots && !json_is_array(roots) && !json_is_null(roots))
		return err_field(e, "sandbox.workspaceRoots", "expected an array of file: URIs");
	if (n > ROOTS_MAX)
		return err_field(e, "sandbox.workspaceRoots", "must have at most %u", ROOTS_MAX);
	t->roots = mem_zalloc(n + 1, sizeof(*t->roots));
	for (; t->nroots < n; t->nroots++)
		if (read_uri(json_array_get(roots, t->nroots), "sandbox.workspaceRoots", &t->roots[t->nroots], e) < 0)
			return -1;
	if (!n && t->cwd)
		t->roots[t->nroots++] = mem_strdup(t->cwd);
	return 0;
}

/* ---- entries ---- */

static void add_entry(struct sandbox_intent *t, const char *path, enum sandbox_intent_access access)
{
	t->entry = mem_realloc(t->entry, (t->count + 1) * sizeof(*t->entry));
	t->entry[t->count++] = (struct sandbox_intent_entry){ .path = mem_strdup(path), .access = access };
}

/*
 * The entry for `sub` below a root. `..` must not lead out of it: the entry would apply to a directory that the client
 * did not name.
 */
static int add_below(struct sandbox_intent *t, const char *root, const char *sub, size_t i,
		     enum sandbox_intent_access access, struct err *e)
{
	mem_auto char *whole = sub ? mem_printf("%s/%s", root, sub) : mem_strdup(root);
	char path[PATH_MAX];
	struct err inner = ERR_INIT;

	if (path_clean(whole, path, &inner) < 0)
		return reject_field(e, i, "%.200s", inner.message);
	if (!path_within(root, path))
		return reject_field(e, i, "subpath '%.200s' leads out of its root", sub);
	add_entry(t, path, access);
	return 0;
}

static int read_special(const json_t *value, size_t i, enum sandbox_intent_access access, struct sandbox_intent *t,
			struct err *e)
{
	enum { ROOT, MINIMAL, CWD, PROJECT, TMPDIR, SLASH_TMP };
	static const char *const kinds[] = { "root",          "minimal", "current_working_directory",
					     "project_roots", "tmpdir",  "slash_tmp" };
	const char *kind = json_get_string(value, "kind"), *sub = json_get_string(value, "subpath"),
		   *odd = unknown_member(value, "kind subpath path");

	if (odd || (sub && kind && strcmp(kind, "project_roots") != 0))
		return reject_field(e, i, "path.value.%.40s is not supported", odd ? odd : "subpath");
	switch (word_of(kind, kinds, countof(kinds))) {
	case ROOT: t->root = access > t->root ? access : t->root; return 0;
	case MINIMAL:
		/* Nothing could be executed then; see narrow_reading. */
		if (access == SANDBOX_INTENT_DENY)
			return reject_field(e, i, "the system's programs cannot be denied%.0s", "");
		t->minimal = true;
		return 0;
	case CWD:
		return t->cwd ? add_below(t, t->cwd, NULL, i, access, e)
			      : reject_field(e, i, "'%s' needs sandbox.cwd", kind);
	case PROJECT:
		if (!t->nroots)
			return reject_field(e, i, "'%s' needs sandbox.cwd or sandbox.workspaceRoots", kind);
		for (size_t k = 0; k < t->nroots; k++)
			if (add_below(t, t->roots[k], sub, i, access, e) < 0)
				return -1;
		return 0;
	case TMPDIR: /* every sandbox has a private /tmp; nothing else to add */
	case SLASH_TMP: return 0;
	default:
		return reject_field(
			e, i, "path.value.kind '%.40s' is not supported, so the requested sandbox cannot be built",
			kind);
	}
}

static int read_glob(const json_t *path, size_t i, enum sandbox_intent_access access, struct sandbox_intent *t,
		     struct err *e)
{
	const char *pattern = json_get_string(path, "pattern");

	if (!pattern || !*pattern || strlen(pattern) >= PATH_MAX / 2)
		return reject_field(e, i, "path.pattern: expected a pattern%.0s", "");
	if (access != SANDBOX_INTENT_DENY)
		return reject_field(e, i, "a pattern ('%.100s') can only deny", pattern);
	size_t n = pattern[0] == '/' ? 1 : t->nroots;
	t->glob = mem_realloc(t->glob, (t->nglobs + n + 1) * sizeof(*t->glob));
	for (size_t k = 0; k < n; k++)
		t->glob[t->nglobs++] = pattern[0] == '/' ? mem_strdup(pattern)
							 : mem_printf("%s/%s", t->roots[k], pattern);
	return n ? 0 : reject_field(e, i, "'%.100s' needs sandbox.cwd or sandbox.workspaceRoots", pattern);
}

static int read_entry(const json_t *entry, size_t i, struct sandbox_intent *t, struct err *e)
{
	static const char *const accesses[] = { "read", "write", "deny", "none" }, *const types[] = { "special", "path",
												      "glob_pattern" };
	static const enum sandbox_intent_access access_of[] = { SANDBOX_INTENT_READ, SANDBOX_INTENT_WRITE,
								SANDBOX_INTENT_DENY, SANDBOX_INTENT_DENY };
	const json_t *path = json_object_get(entry, "path"), *missing = json_object_get(entry, "missing_path_behavior");
	const char *skip = json_string_value(missing);
	int access = word_of(json_get_string(entry, "access"), accesses, countof(accesses));
	char whole[PATH_MAX];
	struct err inner = ERR_INIT;

	const char *odd = unknown_member(entry, "path access missing_path_behavior"),
		   *inner_odd = unknown_member(path, "type path pattern value");
	if (odd || inner_odd)
		return reject_field(e, i, "the member '%.40s' is not supported", odd ? odd : inner_odd);
	if (access < 0)
		return reject_field(e, i, "access '%.40s' is not supported: read, write, deny or none",
				    json_get_string(entry, "access"));
	if (missing && !json_is_null(missing) && (!skip || strcmp(skip, "skip") != 0))
		return reject_field(e, i, "missing_path_behavior '%.40s' is not supported: skip", skip);
	switch (word_of(json_get_string(path, "type"), types, countof(types))) {
	case 0: return read_special(json_object_get(path, "value"), i, access_of[access], t, e);
	case 1:
		if (!json_get_string(path, "path") || file_uri_path(json_get_string(path, "path"), whole, &inner) < 0)
			return reject_field(e, i, "path.path: %.200s", inner.code ? inner.message : "missing");
		if (whole[1])
			add_entry(t, whole, access_of[access]);
		else
			t->root = access_of[access] > t->root ? access_of[access] : t->root;
		return 0;
	case 2: return read_glob(path, i, access_of[access], t, e);
	default: return reject_field(e, i, "path.type '%.40s' is not supported", json_get_string(path, "type"));
	}
}

static int read_files(const json_t *files, struct sandbox_intent *t, struct err *e)
{
	static const char field[] = "sandbox.permissions.file_system";
	static const char *const types[] = { "restricted", "unrestricted" };
	const json_t *entries = json_object_get(files, "entries");
	int type = word_of(json_get_string(files, "type"), types, countof(types));

	if (type < 0)
		return err_field(e, field, "type: expected restricted or unrestricted");
	const char *odd = unknown_member(files, "type entries glob_scan_max_depth");
	if (odd)
		return err_field(e, field, "the member '%.40s' is not supported", odd);
	t->restricted = type == 0;
	if (!t->restricted)
		return 0;
	if (!json_is_array(entries) || json_array_size(entries) > ENTRIES_MAX)
		return err_field(e, field, "entries: expected an array of at most %u", ENTRIES_MAX);
	for (size_t i = 0; i < json_array_size(entries); i++)
		if (read_entry(json_array_get(entries, i), i, t, e) < 0)
			return -1;
	return 0;
}

static int read_permissions(const json_t *p, struct sandbox_intent *t, struct err *e)
{
	enum { MANAGED, DISABLED, EXTERNAL };
	static const char *const types[] = { "managed", "disabled", "external" }, *const networks[] = { "restricted",
													"enabled" };
	int type = word_of(json_get_string(p, "type"), types, countof(types)),
	    network = word_of(json_get_string(p, "network"), networks, countof(networks));

	if (type < 0)
		return err_field(e, "sandbox.permissions",
				 "type '%.40s' is not supported: managed, disabled or external",
				 json_get_string(p, "type") ? json_get_string(p, "type") : "");
	const char *odd = unknown_member(p, "type file_system network");
	if (odd)
		return err_field(e, "sandbox.permissions", "the member '%.40s' is not supported", odd);
	t->network = type == DISABLED || network == 1;
	if (type == DISABLED)
		return 0;
	if (network < 0)
		return err_field(e, "sandbox.permissions.network", "expected restricted or enabled");
	return type == MANAGED ? read_files(json_object_get(p, "file_system"), t, e) : 0;
}

/*
 * policyContext may repeat cwd and workspaceRoots. If they differ, the special entries would mean other directories, so
 * the request is rejected.
 */
static int check_context(const json_t *sandbox, struct err *e)
{
	static const char *const same[] = { "cwd", "workspaceRoots" };
	const json_t *context = json_object_get(sandbox, "policyContext");
	const char *odd = unknown_member(context, "cwd workspaceRoots");

	if (!context || json_is_null(context))
		return 0;
	if (!json_is_object(context) || odd)
		return err_field(e, "sandbox.policyContext",
				 "expected an object with cwd and workspaceRoots, and nothing else: '%.40s'",
				 odd ? odd : "");
	for (size_t i = 0; i < countof(same); i++) {
		const json_t *v = json_object_get(context, same[i]);

		if (v && !json_is_null(v) && !json_equal(v, json_object_get(sandbox, same[i])))
			return err_field(e, "sandbox.policyContext",
					 "its %s is not sandbox.%s, so the requested sandbox cannot be built", same[i],
					 same[i]);
	}
	return 0;
}

int sandbox_intent_of(const json_t *sandbox, const char *cwd, struct sandbox_intent *ret, struct err *e)
{
	/*
	 * The members after policyContext do not restrict anything that we would allow: the home and temporary
	 * directories of Codex's own sandbox (ours are hidden and private), how it is built, and whether to retry
	 * without it.
	 */
	static const char members[] = "permissions cwd workspaceRoots policyContext userHomeDir temporaryDirectories "
				      "windowsSandboxLevel windowsSandboxProxySettingsMode "
				      "windowsSandboxPrivateDesktop mxc useMxc useLegacyLandlock sandboxOverride";
	struct sandbox_intent t = { .network = true };

	if (!sandbox || json_is_null(sandbox)) {
		*ret = t;
		return 0;
	}
	t.given = true;
	if (!json_is_object(sandbox))
		return err_field(e, "sandbox", "expected an object or null");
	const char *odd = unknown_member(sandbox, members);
	if (odd)
		return err_field(e, "sandbox",
				 "the member '%.40s' is not supported, so the requested sandbox cannot be built", odd);
	if (check_context(sandbox, e) < 0)
		return -1;
	if (read_directories(sandbox, cwd, &t, e) < 0 ||
	    read_permissions(json_object_get(sandbox, "permissions"), &t, e) < 0) {
		sandbox_intent_done(&t);
		return -1;
	}
	/*
	 * Codex makes files that could act outside of the sandbox later read-only in writable directories, unless an
	 * entry names exactly that path.
	 */
	static const char *const kept[] = { ".git", ".agents", ".codex" };
	size_t given = t.count;
	for (size_t i = 0; i < given; i++)
		for (size_t k = 0; t.entry[i].access == SANDBOX_INTENT_WRITE && k < countof(kept); k++) {
			mem_auto char *path = mem_printf("%s/%s", t.entry[i].path, kept[k]);
			bool named = false;

			for (size_t n = 0; n < t.count; n++)
				named |= strcmp(t.entry[n].path, path) == 0;
			if (!named && sandbox_intent_access(&t, path) == SANDBOX_INTENT_WRITE)
				add_entry(&t, path, SANDBOX_INTENT_READ);
		}
	*ret = t;
	return 0;
}

void sandbox_intent_done(struct sandbox_intent *t)
{
	for (size_t i = 0; i < t->nroots; i++)
		free(t->roots[i]);
	for (size_t i = 0; i < t->count; i++)
		free(t->entry[i].path);
	for (size_t i = 0; i < t->nglobs; i++)
		free(t->glob[i]);
	free(t->roots);
	free(t->entry);
	free(t->glob);
	free(t->cwd);
	*t = (struct sandbox_intent){ 0 };
}

/* ---- queries ---- */

const char *sandbox_intent_workspace(const struct sandbox_intent *t, const char *cwd)
{
	const char *found = NULL;

	for (size_t i = 0; t->restricted && cwd && i < t->nroots; i++)
		if (path_within(t->roots[i], cwd) && (!found || strlen(t->roots[i]) > strlen(found)))
			found = t->roots[i];
	return found;
}

/*
 * The deepest entry that contains the path and is shorter than `below` bytes; among equally deep ones the strongest
 * access.
 */
static const struct sandbox_intent_entry *deciding_entry(const struct sandbox_intent *t, const char *path, size_t below)
{
	const struct sandbox_intent_entry *best = NULL;

	for (size_t i = 0; i < t->count; i++) {
		const struct sandbox_intent_entry *n = &t->entry[i];
		size_t len = strlen(n->path), had = best ? strlen(best->path) : 0;

		if (len < below && path_within(n->path, path) &&
		    (!best || len > had || (len == had && n->access > best->access)))
			best = n;
	}
	return best;
}

enum sandbox_intent_access sandbox_intent_access(const struct sandbox_intent *t, const char *path)
{
	const struct sandbox_intent_entry *best = deciding_entry(t, path, SIZE_MAX), *around = best;

	/* A read entry does not reopen a denied directory, so look for a deny above it. */
	while (around && around->access == SANDBOX_INTENT_READ)
		around = deciding_entry(t, path, strlen(around->path));
	if (around && around->access == SANDBOX_INTENT_DENY)
		return SANDBOX_INTENT_DENY;
	return best ? best->access : t->root;
}
