/* Applies a request's changes to a profile: narrowing always, widening only if the caller may. */

#include "sandbox/profile_private.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/nested_repos.h"

#include <stdio.h>
#include <string.h>

static int reject_widening(const char *field, const char *what, const char *path, const struct profile *p,
			   struct err *e)
{
	err_set(e, ERR_PERMISSION, "%s '%.200s' is more than profile %s gives; only an operator may widen it", what,
		path, p->name);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

/* Resolves a root of the request: an existing path, and not one of bailiff's own. */
static int resolve_root(const char *given, const char *field, const struct profile_paths *place, char ret[PATH_MAX],
			struct err *e)
{
	struct err inner = ERR_INIT;
	int r = profile_expand_path(given, place, ret, &inner);

	if (r != 0)
		return err_field(e, field, "%s", r < 0 ? inner.message : "the caller has no home or workspace");
	if (!ret[1])
		return err_field(e, field, "'/' is too much: name what is needed");
	for (size_t i = 0; i < place->nsecrets; i++)
		if (path_within(place->secrets[i], ret))
			return err_field(e, field, "'%.200s' is bailiff's own", ret);
	if (path_within("/proc", ret) || path_within("/sys", ret) || path_within("/dev", ret))
		return err_field(e, field, "'%.200s' is made by the sandbox itself", ret);
	return 0;
}

static int add_field(struct profile *p, uint32_t kind, uint32_t flags, const char *path, const char *field,
		     struct err *e)
{
	if (profile_add(p, kind, flags, path, e) == 0)
		return 0;
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

static int adjust_read(struct profile *p, const char *given, const struct profile_paths *place, bool may_widen,
		       struct err *e)
{
	static const char field[] = "sandbox.readRoots";
	char path[PATH_MAX];

	if (resolve_root(given, field, place, path, e) < 0)
		return -1;
	const struct profile_entry *en = profile_decider(p, path);
	bool seen = en &&
		    (en->kind == PLAN_MOUNT_SYSTEM || en->kind == PLAN_MOUNT_READ || en->kind == PLAN_MOUNT_PROTECT);
	bool written = en && en->kind == PLAN_MOUNT_WRITE;
	if (!may_widen && seen)
		return 0;
	if (!may_widen && !written)
		return reject_widening(field, "reading", path, p, e);
	return add_field(p, PLAN_MOUNT_READ, PLAN_MOUNT_OWNED, path, field, e);
}

static bool has_name(const char *path, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = path; (s = strstr(s, name)); s++)
		if (s > path && s[-1] == '/' && (!s[n] || s[n] == '/'))
			return true;
	return false;
}

/*
 * Whether a part of it is a name that is protected in every write root and in nested repositories; for submodules and
 * git directories outside of the workspace, without the name's first component.
 */
static bool is_protected_name(const struct profile *p, const char *path, const struct profile_paths *place)
{
	const char *modules = strstr(path, NESTED_REPOS_MODULES "/");
	const char *inside = modules                             ? modules + strlen(NESTED_REPOS_MODULES)
			     : profile_is_git(place, path, true) ? path
								 : NULL;

	for (size_t i = 0; i < p->count; i++) {
		const char *name = p->entry[i].path;

		if (p->entry[i].kind != PLAN_MOUNT_PROTECT || name[0] == '/')
			continue;
		if (has_name(path, name) || (inside && strncmp(name, ".git/", 5) == 0 && has_name(inside, name + 5)))
			return true;
	}
	return false;
}

/*
 * Whether the profile makes it writable. A protected name does not count: a request that names it explicitly asks to
 * lift the protection.
 */
static bool is_writable(const struct profile *p, const char *path, const struct profile_paths *place)
{
	const struct profile_entry *en = profile_decider(p, path);

	if (!en || en->kind != PLAN_MOUNT_WRITE || is_protected_name(p, path, place))
		return false;
	for (size_t i = 0; i < place->nfolders; i++) /* bailiff's own in a write root is read-only (keep_folders) */
		if (path_within(en->path, place->folders[i]) && path_within(place->folders[i], path))
			return false;
	return true;
}

/*
 * A request can make a directory read-only and keep a part of it writable. Must run before the directory becomes
 * read-only, so that what is read-only inside that part again is known to be in something writable. Returns 1 if kept.
 */
static int keep_write(struct profile *p, const char *given, const struct profile_change *c,
		      const struct profile_paths *place, struct err *e)
{
	static const char field[] = "sandbox.writeRoots";
	char path[PATH_MAX], folder[PATH_MAX];

	if (resolve_root(given, field, place, path, e) < 0)
		return -1;
	for (size_t i = 0; i < c->nread; i++)
		if (resolve_root(c->read[i], field, place, folder, NULL) == 0 && path_within(folder, path) &&
		    is_writable(p, path, place))
			return add_field(p, PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, path, field, e) < 0 ? -1 : 1;
	return 0;
}

static int adjust_write(struct profile *p, const char *given, const struct profile_paths *place, bool may_widen,
			struct err *e)
{
	static const char field[] = "sandbox.writeRoots";
	char path[PATH_MAX];

	if (resolve_root(given, field, place, path, e) < 0)
		return -1;
	const struct profile_entry *en = profile_decider(p, path);
	if (en && en->kind == PLAN_MOUNT_WRITE)
		return 0;
	if (!may_widen)
		return reject_widening(field, "writing", path, p, e);
	return add_field(p, PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, path, field, e);
}

/* Hiding a path also hides what the profile shows inside it. */
static int adjust_hide(struct profile *p, const char *given, const struct profile_paths *place, struct err *e)
{
	static const char field[] = "sandbox.hidden";
	char path[PATH_MAX];

	if (resolve_root(given, field, place, path, e) < 0)
		return -1;
	if (path_within(path, place->cwd))
		return err_field(e, field, "'%.150s' holds the working directory '%.150s'", path, place->cwd);
	for (size_t i = p->count; i-- > 0;)
		if (p->entry[i].path[0] == '/' && path_within(path, p->entry[i].path))
			profile_drop(p, i);
	return add_field(p, PLAN_MOUNT_HIDE, 0, path, field, e);
}

static bool has_allowed_host(const struct profile *p)
{
	for (size_t i = 0; i < p->hosts.count; i++)
		if (host_rule_allows(&p->hosts.rule[i]))
			return true;
	return false;
}

/* `free`: the request narrows the list, or the caller may widen it. */
static int adjust_hosts(struct profile *p, const struct profile_change *c, bool free, struct err *e)
{
	static const char field[] = "sandbox.allowHosts";

	for (size_t i = 0; i < c->nhosts; i++) {
		struct host_rule r;
		struct err inner = ERR_INIT;

		if (host_rule_parse(c->hosts[i], false, &r, &inner) < 0)
			return err_field(e, field, "%s", inner.message);
		if (host_rules_include(&p->hosts, &r))
			continue;
		if (!free)
			return reject_widening(field, "reaching", c->hosts[i], p, e);
		if (profile_add_host(p, c->hosts[i], false, &inner) < 0)
			return err_field(e, field, "%s", inner.message);
	}
	if (!has_allowed_host(p))
		return err_field(e, field, "name the hosts that may be reached");
	return 0;
}

static int adjust_network(struct profile *p, const struct profile_change *c, bool may_widen, struct err *e)
{
	static const char field[] = "sandbox.network";
	static const unsigned width[] = { [PLAN_NET_NONE] = 0, [PLAN_NET_ALLOW] = 1, [PLAN_NET_HOST] = 2 };
	int network = c->network ? profile_network(c->network) : c->nhosts ? PLAN_NET_ALLOW : (int)p->network;

	if (network < 0)
		return err_field(e, field, "'%.40s' is not none, host or allow", c->network);
	if (c->nhosts && network != PLAN_NET_ALLOW)
		return err_field(e, "sandbox.allowHosts", "goes with network allow, not %s", c->network);
	if (!c->network && c->nhosts && p->network == PLAN_NET_HOST)
		return err_field(e, "sandbox.allowHosts",
				 "profile %s has the host's network; add network allow to narrow it", p->name);
	if (!may_widen && width[network] > width[p->network])
		return reject_widening(field, "network", profile_network_name((uint32_t)network), p, e);
	bool narrower = p->network == PLAN_NET_HOST;
	p->network = (uint32_t)network;
	return network == PLAN_NET_ALLOW && (c->network || c->nhosts) ? adjust_hosts(p, c, may_widen || narrower, e)
								      : 0;
}

static int widens_limit(const char *field, uint64_t value, const struct profile *p, struct err *e)
{
	char text[24];

	snprintf(text, sizeof text, "%llu", (unsigned long long)value);
	return reject_widening(field, "a limit of", text, p, e);
}

static int adjust_tmp(struct profile *p, uint64_t bytes, bool may_widen, struct err *e)
{
	static const char field[] = "sandbox.tmpBytes";

	if (!bytes)
		return 0;
	if (bytes < PROFILE_TMP_LEAST)
		return err_field(e, field, "must be at least %u", PROFILE_TMP_LEAST);
	if (!may_widen && p->tmp_bytes && bytes > p->tmp_bytes)
		return widens_limit(field, bytes, p, e);
	p->tmp_bytes = bytes;
	return 0;
}

static int adjust_limit(struct profile *p, enum plan_limit l, uint64_t value, bool may_widen, struct err *e)
{
	const struct plan_limit_info *row = &plan_limit_info[l];
	uint64_t held = p->limits.value[l] ? p->limits.value[l] : row->otherwise;
	char field[ERR_FIELD_MAX], room[64];

	snprintf(field, sizeof field, "limits.%s", row->key);
	const char *why = plan_limit_refusal(l, value, room);
	if (why)
		return err_field(e, field, "%s", why);
	if (!may_widen && value > held)
		return widens_limit(field, value, p, e);
	profile_require_limit(p, l, value);
	return 0;
}

static int adjust_limits(struct profile *p, const struct profile_change *c, bool may_widen, struct err *e)
{
	const uint64_t *wanted = c->limits.value;

	for (int i = 0; i < PLAN_LIMITS; i++)
		if (wanted[i] && adjust_limit(p, (enum plan_limit)i, wanted[i], may_widen, e) < 0)
			return -1;
	if (wanted[PLAN_LIMIT_MEMORY_HIGH] && p->limits.value[PLAN_LIMIT_MEMORY] &&
	    wanted[PLAN_LIMIT_MEMORY_HIGH] >= p->limits.value[PLAN_LIMIT_MEMORY])
		return err_field(e, "limits.memoryHighBytes", "must be less than memoryBytes, which is %llu",
				 (unsigned long long)p->limits.value[PLAN_LIMIT_MEMORY]);
	return adjust_tmp(p, c->tmp_bytes, may_widen, e);
}

/* Without a sandbox only limits can be changed. */
static int check_unconfined(const struct profile *p, const struct profile_change *c, struct err *e)
{
	const char *field = c->nread                                        ? "sandbox.readRoots"
			    : c->nwrite                                     ? "sandbox.writeRoots"
			    : c->nhide                                      ? "sandbox.hidden"
			    : c->network && strcmp(c->network, "host") != 0 ? "sandbox.network"
			    : c->nhosts                                     ? "sandbox.allowHosts"
			    : c->tmp_bytes                                  ? "sandbox.tmpBytes"
			    : c->cow                                        ? "cow"
									    : NULL;

	if (p->confined || !field)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "profile %s has no sandbox to change", p->name);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

int profile_adjust(struct profile *p, const struct profile_change *c, const struct profile_paths *place, bool may_widen,
		   struct err *e)
{
	if (check_unconfined(p, c, e) < 0)
		return -1;
	mem_auto int *kept = mem_zalloc(c->nwrite + 1, sizeof(*kept));
	for (size_t i = 0; i < c->nwrite && !may_widen; i++)
		if ((kept[i] = keep_write(p, c->write[i], c, place, e)) < 0)
			return -1;
	for (size_t i = 0; i < c->nread; i++)
		if (adjust_read(p, c->read[i], place, may_widen, e) < 0)
			return -1;
	for (size_t i = 0; i < c->nwrite; i++)
		if (!kept[i] && adjust_write(p, c->write[i], place, may_widen, e) < 0)
			return -1;
	for (size_t i = 0; i < c->nhide; i++)
		if (adjust_hide(p, c->hide[i], place, e) < 0)
			return -1;
	if (p->confined && adjust_network(p, c, may_widen, e) < 0)
		return -1;
	if (adjust_limits(p, c, may_widen, e) < 0)
		return -1;
	p->cow |= c->cow;
	return 0;
}
