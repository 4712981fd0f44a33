/*
 * From what a person wrote to the mounts of a plan.
 *
 * Every path has one entry that decides about it: the deepest that holds it. That makes "may this request have it?" a
 * question about one entry (profile_decider), and it is also how mounts lie on each other once they are sorted so that a
 * folder comes before what is in it.
 */

#include "sandbox/profile.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/nested.h"

#include <stdio.h>
#include <string.h>

#define WORKSPACE "$WORKSPACE"
#define NESTED_SPARE 32u         /* what else is added to a profile still finds room: secrets */
#define NESTED_SPARE_TEXT 4096u
#define LAYERS_ALL                                                                                       \
	(PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_LANDLOCK | PLAN_LAYER_SECCOMP |          \
	 PLAN_LAYER_CAPABILITIES | PLAN_LAYER_CGROUP)
/* Landlock is the second wall and a cgroup is for limits; the rest is the wall itself. */
#define LAYERS_WALL (PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES)
/* Without a sandbox there are still an own init and a tree to end. */
#define LAYERS_HOST (PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_CGROUP)

/* ---- words ---- */

static const char *const kinds[] = {
	[PLAN_MOUNT_SYSTEM] = "system", [PLAN_MOUNT_READ] = "read", [PLAN_MOUNT_WRITE] = "write", [PLAN_MOUNT_EMPTY] = "empty",
	[PLAN_MOUNT_HIDE] = "hide",     [PLAN_MOUNT_PROTECT] = "protect",
};
static const char *const networks[] = { [PLAN_NET_HOST] = "host", [PLAN_NET_NONE] = "none", [PLAN_NET_ALLOW] = "allow" };
static const char *const layers[] = { "namespaces", "mounts", "landlock", "seccomp", "capabilities", "cgroup" };

const char *profile_kind_name(uint32_t kind)
{
	return kind < countof(kinds) && kinds[kind] ? kinds[kind] : "unknown";
}

const char *profile_network_name(uint32_t network)
{
	return network < countof(networks) ? networks[network] : "unknown";
}

int profile_network(const char *name)
{
	for (size_t i = 0; i < countof(networks); i++)
		if (strcmp(networks[i], name) == 0)
			return (int)i;
	return -1;
}

const char *profile_layer_name(unsigned bit)
{
	return bit < countof(layers) ? layers[bit] : NULL;
}

uint32_t profile_layer(const char *name)
{
	for (unsigned i = 0; i < countof(layers); i++)
		if (strcmp(layers[i], name) == 0)
			return 1u << i;
	return 0;
}

/* ---- entries ---- */

static void drop(struct profile *p, size_t i)
{
	p->text -= strlen(p->entry[i].path) + 1;
	free(p->entry[i].path);
	p->count--;
	memmove(&p->entry[i], &p->entry[i + 1], (p->count - i) * sizeof p->entry[0]);
}

void profile_clear(struct profile *p, uint32_t kind)
{
	for (size_t i = p->count; i-- > 0;)
		if (!kind || p->entry[i].kind == kind)
			drop(p, i);
}

void profile_done(struct profile *p)
{
	profile_clear(p, 0);
	host_rules_done(&p->hosts);
	*p = (struct profile){ 0 };
}

void profile_copy(const struct profile *from, struct profile *ret)
{
	*ret = *from;
	for (size_t i = 0; i < from->count; i++)
		ret->entry[i].path = mem_strdup(from->entry[i].path);
	host_rules_copy(&from->hosts, &ret->hosts);
}

int profile_add_host(struct profile *p, const char *text, bool deny, struct err *e)
{
	struct host_rule r;

	if (host_rule_parse(text, deny, &r, e) < 0)
		return -1;
	if (p->hosts.count >= HOST_RULES_MAX)
		return err_set(e, ERR_EXHAUSTED, "a profile has at most %u hosts", HOST_RULES_MAX);
	host_rules_add(&p->hosts, &r);
	return 0;
}

int profile_add(struct profile *p, uint32_t kind, uint32_t flags, const char *path, struct err *e)
{
	size_t len = strlen(path);

	if (len > 1 && path[len - 1] == '?') {
		flags |= PLAN_MOUNT_OPTIONAL;
		len--;
	}
	if (len == 0 || len >= PATH_MAX)
		return err_set(e, ERR_INVALID, "a path has 1 to %d bytes", PATH_MAX - 1);
	if (p->count == countof(p->entry))
		return err_set(e, ERR_EXHAUSTED, "a profile has at most %zu paths", countof(p->entry));
	if (p->text + len + 1 > PROFILE_TEXT_MAX)
		return err_set(e, ERR_EXHAUSTED, "the paths of a profile have at most %d bytes together", PROFILE_TEXT_MAX);
	p->text += len + 1;
	p->entry[p->count++] = (struct profile_entry){ kind, flags, mem_strndup(path, len) };
	return 0;
}

/* ---- the shipped ones ---- */

enum { /* bits of the groups */
#define SET(name) SET_NR_##name,
#include "sandbox/profiles.def"
#undef SET
};
enum {
#define SET(name) SET_##name = 1 << SET_NR_##name,
#include "sandbox/profiles.def"
#undef SET
};

static const struct {
	unsigned set;
	uint32_t kind, flags;
	const char *path;
} shipped_entries[] = {
#define OWNED PLAN_MOUNT_OWNED
#define IN_PARENT PLAN_MOUNT_IN_PARENT
#define ENTRY(set, kind, flags, path) { SET_##set, PLAN_MOUNT_##kind, flags, path },
#include "sandbox/profiles.def"
#undef ENTRY
#undef OWNED
#undef IN_PARENT
};

static const struct shipped {
	struct profile_info info;
	bool confined;
	unsigned sets;
	uint32_t network;
	uint64_t tmp_bytes, pids;
} shipped[] = {
#define PROFILE(name, confined, sets, network, tmp, pids, summary) { { name, summary }, confined, sets, PLAN_NET_##network, tmp, pids },
#include "sandbox/profiles.def"
#undef PROFILE
};

size_t profile_shipped_count(void)
{
	return countof(shipped);
}

const struct profile_info *profile_shipped_info(size_t i)
{
	return &shipped[i].info;
}

static void build_shipped(const struct shipped *row, struct profile *ret)
{
	*ret = (struct profile){
		.confined = row->confined,
		.network = row->network,
		.layers = row->confined ? LAYERS_ALL : LAYERS_HOST,
		.require = row->confined ? LAYERS_WALL : PLAN_LAYER_NAMESPACES,
		.tmp_bytes = row->tmp_bytes,
		.pids = row->pids,
	};
	memcpy(ret->name, row->info.name, strlen(row->info.name) + 1);
	for (size_t i = 0; i < countof(shipped_entries); i++)
		if (shipped_entries[i].set & row->sets)
			profile_add(ret, shipped_entries[i].kind, shipped_entries[i].flags, shipped_entries[i].path, NULL);
}

int profile_shipped(const char *name, struct profile *ret)
{
	for (size_t i = 0; i < countof(shipped); i++) {
		if (strcmp(shipped[i].info.name, name) != 0)
			continue;
		build_shipped(&shipped[i], ret);
		return 0;
	}
	return -1;
}

/* ---- paths of the world ---- */

/* 1 = there is no such place, and so nothing of it. */
static int expand_path(const char *path, const struct profile_place *place, char ret[PATH_MAX], struct err *e)
{
	char whole[2 * PATH_MAX];
	const char *base = "", *rest = path;

	if (path[0] == '~' && (path[1] == '/' || !path[1])) {
		base = place->home;
		rest = path + 1;
	} else if (strncmp(path, WORKSPACE, sizeof WORKSPACE - 1) == 0) {
		base = place->workspace;
		rest = path + sizeof WORKSPACE - 1;
	}
	if (rest != path && (!base[0] || !base[1]))
		return 1;
	snprintf(whole, sizeof whole, "%s%s", base, rest);
	return path_clean(whole, ret, e);
}

int profile_expand(struct profile *p, const struct profile_place *place, struct err *e)
{
	for (size_t i = 0; i < p->count;) {
		struct profile_entry *en = &p->entry[i];
		char path[PATH_MAX];

		if (en->kind == PLAN_MOUNT_PROTECT && en->path[0] != '/' && en->path[0] != '~' && en->path[0] != '$') {
			i++;
			continue;
		}
		int r = expand_path(en->path, place, path, e);
		if (r < 0)
			return err_wrap(e, "profile %s", p->name);
		if (r > 0) {
			drop(p, i);
			continue;
		}
		p->text += strlen(path) - strlen(en->path);
		free(en->path);
		en->path = mem_strdup(path);
		i++;
	}
	return 0;
}

/* ---- what a request changes ---- */

/* These are the sandbox's own, whatever lies there on the host. */
static bool is_made_inside(const char *path)
{
	static const char *const made[] = { "/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/run" };

	for (size_t i = 0; i < countof(made); i++)
		if (path_within(made[i], path))
			return true;
	return false;
}

/* The entry that decides about a path; NULL = nothing of the host is seen there. */
static const struct profile_entry *decider(const struct profile *p, const char *path)
{
	const struct profile_entry *best = NULL;

	for (size_t i = 0; i < p->count; i++) {
		const struct profile_entry *en = &p->entry[i];
		if (en->path[0] == '/' && path_within(en->path, path) && (!best || strlen(en->path) >= strlen(best->path)))
			best = en;
	}
	return best && best->kind == PLAN_MOUNT_SYSTEM && is_made_inside(path) ? NULL : best;
}

static int widens(const char *field, const char *what, const char *path, const struct profile *p, struct err *e)
{
	err_set(e, ERR_PERMISSION, "%s '%.200s' is more than profile %s gives; only an operator may widen it", what, path, p->name);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

/* A root of the request's: a real place, and none of ours. */
static int take_path(const char *given, const char *field, const struct profile_place *place, char ret[PATH_MAX], struct err *e)
{
	struct err inner = ERR_INIT;
	int r = expand_path(given, place, ret, &inner);

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

static int add_field(struct profile *p, uint32_t kind, uint32_t flags, const char *path, const char *field, struct err *e)
{
	if (profile_add(p, kind, flags, path, e) == 0)
		return 0;
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

static int adjust_read(struct profile *p, const char *given, const struct profile_place *place, bool may_widen, struct err *e)
{
	static const char field[] = "sandbox.readRoots";
	char path[PATH_MAX];

	if (take_path(given, field, place, path, e) < 0)
		return -1;
	const struct profile_entry *en = decider(p, path);
	bool seen = en && (en->kind == PLAN_MOUNT_SYSTEM || en->kind == PLAN_MOUNT_READ || en->kind == PLAN_MOUNT_PROTECT);
	bool written = en && en->kind == PLAN_MOUNT_WRITE;
	if (!may_widen && seen)
		return 0;
	if (!may_widen && !written)
		return widens(field, "reading", path, p, e);
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

/* Part of it is a name that is protected in every write root, and in what is nested there: of submodules, without the first of its names. */
static bool is_protected_name(const struct profile *p, const char *path)
{
	const char *modules = strstr(path, NESTED_MODULES "/");

	for (size_t i = 0; i < p->count; i++) {
		const char *name = p->entry[i].path;

		if (p->entry[i].kind != PLAN_MOUNT_PROTECT || name[0] == '/')
			continue;
		if (has_name(path, name) || (modules && strncmp(name, ".git/", 5) == 0 && has_name(modules + strlen(NESTED_MODULES), name + 5)))
			return true;
	}
	return false;
}

/*
 * What the profile lets be written anyway. A name that is protected is not that: who names it himself means it without the
 * protection.
 */
static bool is_writable(const struct profile *p, const char *path, const struct profile_place *place)
{
	const struct profile_entry *en = decider(p, path);

	if (!en || en->kind != PLAN_MOUNT_WRITE || is_protected_name(p, path))
		return false;
	for (size_t i = 0; i < place->nfolders; i++) /* one of bailiff's in a write root is read-only (keep_folders) */
		if (path_within(en->path, place->folders[i]) && path_within(place->folders[i], path))
			return false;
	return true;
}

/*
 * A request may make a folder read-only and keep something in it. Before the folder is, so that what is read-only in that again
 * is known to be in something that can be written. 1: it is kept.
 */
static int keep_write(struct profile *p, const char *given, const struct profile_change *c, const struct profile_place *place, struct err *e)
{
	static const char field[] = "sandbox.writeRoots";
	char path[PATH_MAX], folder[PATH_MAX];

	if (take_path(given, field, place, path, e) < 0)
		return -1;
	for (size_t i = 0; i < c->nread; i++)
		if (take_path(c->read[i], field, place, folder, NULL) == 0 && path_within(folder, path) && is_writable(p, path, place))
			return add_field(p, PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, path, field, e) < 0 ? -1 : 1;
	return 0;
}

static int adjust_write(struct profile *p, const char *given, const struct profile_place *place, bool may_widen, struct err *e)
{
	static const char field[] = "sandbox.writeRoots";
	char path[PATH_MAX];

	if (take_path(given, field, place, path, e) < 0)
		return -1;
	const struct profile_entry *en = decider(p, path);
	if (en && en->kind == PLAN_MOUNT_WRITE)
		return 0;
	if (!may_widen)
		return widens(field, "writing", path, p, e);
	return add_field(p, PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, path, field, e);
}

/* Hidden is hidden: also what the profile shows inside. */
static int adjust_hide(struct profile *p, const char *given, const struct profile_place *place, struct err *e)
{
	static const char field[] = "sandbox.hidden";
	char path[PATH_MAX];

	if (take_path(given, field, place, path, e) < 0)
		return -1;
	if (path_within(path, place->cwd))
		return err_field(e, field, "'%.150s' holds the working directory '%.150s'", path, place->cwd);
	for (size_t i = p->count; i-- > 0;)
		if (p->entry[i].path[0] == '/' && path_within(path, p->entry[i].path))
			drop(p, i);
	return add_field(p, PLAN_MOUNT_HIDE, 0, path, field, e);
}

static bool has_allowed_host(const struct profile *p)
{
	for (size_t i = 0; i < p->hosts.count; i++)
		if (host_rule_allows(&p->hosts.rule[i]))
			return true;
	return false;
}

/* `free`: what is named is less than there was, or the caller may have more. */
static int adjust_hosts(struct profile *p, const struct profile_change *c, bool free, struct err *e)
{
	static const char field[] = "sandbox.allowHosts";

	for (size_t i = 0; i < c->nhosts; i++) {
		struct host_rule r;
		struct err inner = ERR_INIT;

		if (host_rule_parse(c->hosts[i], false, &r, &inner) < 0)
			return err_field(e, field, "%s", inner.message);
		if (host_rules_cover(&p->hosts, &r))
			continue;
		if (!free)
			return widens(field, "reaching", c->hosts[i], p, e);
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
		return err_field(e, "sandbox.allowHosts", "profile %s has the host's network; add network allow to narrow it", p->name);
	if (!may_widen && width[network] > width[p->network])
		return widens(field, "network", profile_network_name((uint32_t)network), p, e);
	bool narrower = p->network == PLAN_NET_HOST;
	p->network = (uint32_t)network;
	return network == PLAN_NET_ALLOW && (c->network || c->nhosts) ? adjust_hosts(p, c, may_widen || narrower, e) : 0;
}

static int adjust_limits(struct profile *p, const struct profile_change *c, bool may_widen, struct err *e)
{
	const struct {
		const char *field;
		uint64_t *limit, value, least;
		uint32_t layer;
	} rows[] = {
		{ "limits.memoryBytes", &p->memory_bytes, c->memory_bytes, PROFILE_MEMORY_LEAST, PLAN_LAYER_CGROUP },
		{ "limits.pids", &p->pids, c->pids, 1, PLAN_LAYER_CGROUP },
		{ "sandbox.tmpBytes", &p->tmp_bytes, c->tmp_bytes, PROFILE_TMP_LEAST, 0 },
	};
	char text[24];

	for (size_t i = 0; i < countof(rows); i++) {
		if (!rows[i].value)
			continue;
		if (rows[i].value < rows[i].least)
			return err_field(e, rows[i].field, "must be at least %llu", (unsigned long long)rows[i].least);
		if (!may_widen && *rows[i].limit && rows[i].value > *rows[i].limit) {
			snprintf(text, sizeof text, "%llu", (unsigned long long)rows[i].value);
			return widens(rows[i].field, "a limit of", text, p, e);
		}
		*rows[i].limit = rows[i].value;
		p->require |= rows[i].layer;
	}
	return 0;
}

/* Without a sandbox there is nothing to change but limits. */
static int check_unconfined(const struct profile *p, const struct profile_change *c, struct err *e)
{
	const char *field = c->nread ? "sandbox.readRoots" : c->nwrite ? "sandbox.writeRoots" : c->nhide ? "sandbox.hidden" :
			    c->network && strcmp(c->network, "host") != 0 ? "sandbox.network" : c->nhosts ? "sandbox.allowHosts" : c->tmp_bytes ? "sandbox.tmpBytes" :
			    c->cow ? "cow" : NULL;

	if (p->confined || !field)
		return 0;
	err_set(e, ERR_UNAVAILABLE, "profile %s has no sandbox to change", p->name);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

int profile_adjust(struct profile *p, const struct profile_change *c, const struct profile_place *place, bool may_widen, struct err *e)
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

/* ---- the plan's part ---- */

static bool in_write_root(const struct profile *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == PLAN_MOUNT_WRITE && path_within(p->entry[i].path, path))
			return true;
	return false;
}

static bool is_named(const struct profile *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->entry[i].path, path) == 0)
			return true;
	return false;
}

/* A write root that is itself the folder which a protected name begins with (.git, .claude): the rest of the name; else all of it. */
static const char *inside_of(const char *root, const char *name)
{
	const char *slash = strrchr(root, '/');
	size_t n = strcspn(name, "/");

	return slash && name[n] && strncmp(slash + 1, name, n) == 0 && !slash[1 + n] ? name + n + 1 : name;
}

/*
 * What is protected in a write root is so in what is nested in it: found on the disk, so as far as there is room in a plan, the nearest
 * first. Somebody who names such a path himself means it.
 */
static int spread_nested(struct profile *p, const struct profile_place *place, struct err *e)
{
	const char *end = place->nested ? place->nested + place->nested_len : NULL;
	size_t before = p->count;

	for (const char *s = place->nested; s < end; s += strlen(s) + 1) {
		const struct profile_entry *holder = decider(p, s);

		for (size_t k = 0; holder && holder->kind == PLAN_MOUNT_WRITE && k < before; k++) {
			const struct profile_entry *en = &p->entry[k];
			char path[PATH_MAX];

			if (en->kind != PLAN_MOUNT_PROTECT || en->path[0] == '/' || !nested_place(s, en->path, path) || is_named(p, path))
				continue;
			if (p->count + NESTED_SPARE >= countof(p->entry) || p->text + strlen(path) + NESTED_SPARE_TEXT >= PROFILE_TEXT_MAX)
				return 0;
			if (profile_add(p, PLAN_MOUNT_PROTECT, en->flags, path, e) < 0)
				return -1;
		}
	}
	return 0;
}

/* Relative ones, in every write root; somebody who names such a path himself means it. */
static int spread_protected(struct profile *p, const struct profile_place *place, struct err *e)
{
	size_t before = p->count;

	for (size_t i = 0; i < before; i++) {
		for (size_t k = 0; p->entry[i].kind == PLAN_MOUNT_WRITE && k < before; k++) {
			char whole[2 * PATH_MAX], path[PATH_MAX];
			const struct profile_entry *en = &p->entry[k];

			if (en->kind != PLAN_MOUNT_PROTECT || en->path[0] == '/')
				continue;
			snprintf(whole, sizeof whole, "%s/%s", p->entry[i].path, inside_of(p->entry[i].path, en->path));
			if (path_clean(whole, path, e) < 0)
				return -1;
			if (!is_named(p, path) && profile_add(p, PLAN_MOUNT_PROTECT, en->flags, path, e) < 0)
				return -1;
		}
	}
	if (spread_nested(p, place, e) < 0)
		return -1;
	/* Where nothing can be written there is nothing to protect. */
	for (size_t i = p->count; i-- > 0;)
		if (p->entry[i].path[0] != '/' || (p->entry[i].kind == PLAN_MOUNT_PROTECT && !in_write_root(p, p->entry[i].path)))
			drop(p, i);
	return 0;
}

static bool is_shown(const char *folder, const struct profile_place *place)
{
	return path_within(folder, place->workspace) || path_within(folder, place->cwd);
}

/*
 * A folder of bailiff's in which somebody works is shown, but only read-only: files that do not exist yet (a policy) must
 * not be made there either, and placeholders for them would be taken for the files.
 */
static int keep_folders(struct profile *p, const struct profile_place *place, struct err *e)
{
	for (size_t i = 0; i < place->nfolders; i++) {
		const char *folder = place->folders[i];

		if (!is_shown(folder, place) || !in_write_root(p, folder))
			continue;
		for (size_t k = 0; k < p->count; k++)
			if (p->entry[k].kind == PLAN_MOUNT_WRITE && strcmp(p->entry[k].path, folder) == 0)
				p->entry[k].kind = PLAN_MOUNT_READ;
		if (in_write_root(p, folder) && profile_add(p, PLAN_MOUNT_READ, PLAN_MOUNT_OWNED, folder, e) < 0)
			return -1;
	}
	return 0;
}

static int hide_secrets(struct profile *p, const struct profile_place *place, struct err *e)
{
	for (size_t i = 0; i < place->nfolders; i++)
		if (!is_shown(place->folders[i], place) && profile_add(p, PLAN_MOUNT_HIDE, PLAN_MOUNT_OPTIONAL, place->folders[i], e) < 0)
			return -1;
	for (size_t i = 0; i < place->nsecrets; i++) {
		const struct profile_entry *en = decider(p, place->secrets[i]);
		bool hidden = en && en->kind == PLAN_MOUNT_HIDE;

		/* Where the sandbox cannot write, one that does not exist needs no placeholder. */
		if (!hidden && profile_add(p, PLAN_MOUNT_HIDE, en && en->kind == PLAN_MOUNT_WRITE ? 0 : PLAN_MOUNT_OPTIONAL,
					   place->secrets[i], e) < 0)
			return -1;
	}
	return 0;
}

/* Of two entries for one path the later one counts: the caller's own home among all homes, a request's wish, a secret. */
static void settle(struct profile *p)
{
	for (size_t i = p->count; i-- > 1;) {
		for (size_t k = i; k-- > 0;) {
			if (strcmp(p->entry[i].path, p->entry[k].path) != 0)
				continue;
			drop(p, k);
			i--;
		}
	}
}

static int compare_entries(const void *a, const void *b)
{
	return path_compare(((const struct profile_entry *)a)->path, ((const struct profile_entry *)b)->path);
}

int profile_compile(struct profile *p, const struct profile_place *place, struct err *e)
{
	if (!p->confined) {
		profile_clear(p, 0);
		return 0;
	}
	if (keep_folders(p, place, e) < 0 || spread_protected(p, place, e) < 0 || hide_secrets(p, place, e) < 0)
		return err_wrap(e, "profile %s", p->name);
	settle(p);
	qsort(p->entry, p->count, sizeof p->entry[0], compare_entries);
	return 0;
}

void profile_plan(const struct profile *p, struct profile_mounts *mounts, struct plan_spec *ret)
{
	for (size_t i = 0; i < p->count; i++)
		mounts->mount[i] = (struct plan_mount_spec){ p->entry[i].kind, p->entry[i].flags, p->entry[i].path };
	ret->mounts = mounts->mount;
	ret->nmounts = p->count;
	ret->flags |= (p->confined ? PLAN_PRIVATE_ROOT : 0) | (p->cow ? PLAN_COW : 0);
	ret->layers = p->layers;
	ret->require = p->require;
	ret->network = p->network;
	ret->tmp_bytes = p->tmp_bytes;
	ret->memory_bytes = p->memory_bytes;
	ret->pids = p->pids;
}
