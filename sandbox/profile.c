/*
 * Compiles a profile, as a person wrote it, to the mounts of a plan.
 *
 * Every path has one entry that decides about it: the deepest one that contains it. So a permission check of a request
 * concerns a single entry (profile_decider), and mounts have the same semantics once they are sorted so that a
 * directory comes before what is in it.
 */

#include "sandbox/profile.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/nested_repos.h"
#include "sandbox/profile_private.h"
#include "sandbox/root_paths.h"

#include <stdio.h>
#include <string.h>

#define WORKSPACE "$WORKSPACE"
#define NESTED_SPARE 32u /* entries reserved for what is added later: secrets */
#define NESTED_SPARE_TEXT 4096u
#define LAYERS_ALL                                                                              \
	(PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_LANDLOCK | PLAN_LAYER_SECCOMP | \
	 PLAN_LAYER_CAPABILITIES | PLAN_LAYER_CGROUP | PLAN_LAYER_ABSTRACT_SOCKETS)
/* Landlock is a second layer of defence and a cgroup is for limits; the rest is indispensable. */
#define LAYERS_WALL (PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES)
/* Without a sandbox there are still an init and a tree to end. */
#define LAYERS_HOST (PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_CGROUP)

/* ---- words ---- */

static const char *const kinds[] = {
	[PLAN_MOUNT_SYSTEM] = "system", [PLAN_MOUNT_READ] = "read", [PLAN_MOUNT_WRITE] = "write",
	[PLAN_MOUNT_EMPTY] = "empty",   [PLAN_MOUNT_HIDE] = "hide", [PLAN_MOUNT_PROTECT] = "protect",
};
static const char *const networks[] = {
	[PLAN_NET_HOST] = "host", [PLAN_NET_NONE] = "none", [PLAN_NET_ALLOW] = "allow"
};
static const char *const layers[] = { "namespaces",   "mounts", "landlock",       "seccomp",
				      "capabilities", "cgroup", "abstractSockets" };

const char *profile_kind_name(uint32_t kind) { return kind < countof(kinds) && kinds[kind] ? kinds[kind] : "unknown"; }

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

const char *profile_layer_name(unsigned bit) { return bit < countof(layers) ? layers[bit] : NULL; }

uint32_t profile_layer(const char *name)
{
	for (unsigned i = 0; i < countof(layers); i++)
		if (strcmp(layers[i], name) == 0)
			return 1u << i;
	return 0;
}

/* ---- entries ---- */

void profile_drop(struct profile *p, size_t i)
{
	p->text -= strlen(p->entry[i].path) + 1;
	free(p->entry[i].path);
	p->count--;
	memmove(&p->entry[i], &p->entry[i + 1], (p->count - i) * sizeof p->entry[0]);
}

/* Removes the entries of that kind, or all with kind 0. */
static void profile_clear(struct profile *p, uint32_t kind)
{
	for (size_t i = p->count; i-- > 0;)
		if (!kind || p->entry[i].kind == kind)
			profile_drop(p, i);
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

void profile_drop_shown(struct profile *p, const struct profile_paths *place, const char *path)
{
	for (size_t i = p->count; i-- > 0;) {
		const struct profile_entry *en = &p->entry[i];

		if ((en->kind == PLAN_MOUNT_READ || en->kind == PLAN_MOUNT_WRITE) && path_within(path, en->path) &&
		    !path_within(en->path, place->workspace))
			profile_drop(p, i);
	}
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
		return err_set(e, ERR_EXHAUSTED, "the paths of a profile have at most %d bytes together",
			       PROFILE_TEXT_MAX);
	p->text += len + 1;
	p->entry[p->count++] = (struct profile_entry){ kind, flags, mem_strndup(path, len) };
	return 0;
}

/* ---- shipped profiles ---- */

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
#define EXACT PLAN_MOUNT_EXACT
#define ENTRY(set, kind, flags, path) { SET_##set, PLAN_MOUNT_##kind, flags, path },
#include "sandbox/profiles.def"
#undef ENTRY
#undef OWNED
#undef IN_PARENT
#undef EXACT
};

static const struct shipped {
	struct profile_info info;
	bool confined;
	unsigned sets;
	uint32_t network;
	uint64_t tmp_bytes, pids;
} shipped[] = {
#define PROFILE(name, confined, sets, network, tmp, pids, summary) \
	{ { name, summary }, confined, sets, PLAN_NET_##network, tmp, pids },
#include "sandbox/profiles.def"
#undef PROFILE
};

size_t profile_shipped_count(void) { return countof(shipped); }

const struct profile_info *profile_shipped_info(size_t i) { return &shipped[i].info; }

static void build_shipped(const struct shipped *row, struct profile *ret)
{
	*ret = (struct profile){
		.confined = row->confined,
		.network = row->network,
		.layers = row->confined ? LAYERS_ALL : LAYERS_HOST,
		.require = row->confined ? LAYERS_WALL : PLAN_LAYER_NAMESPACES,
		.tmp_bytes = row->tmp_bytes,
		.limits.value[PLAN_LIMIT_PIDS] = row->pids,
	};
	memcpy(ret->name, row->info.name, strlen(row->info.name) + 1);
	for (size_t i = 0; i < countof(shipped_entries); i++)
		if (shipped_entries[i].set & row->sets)
			profile_add(ret, shipped_entries[i].kind, shipped_entries[i].flags, shipped_entries[i].path,
				    NULL);
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

/* ---- path expansion ---- */

int profile_expand_path(const char *path, const struct profile_paths *place, char ret[PATH_MAX], struct err *e)
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

int profile_expand(struct profile *p, const struct profile_paths *place, struct err *e)
{
	for (size_t i = 0; i < p->count;) {
		struct profile_entry *en = &p->entry[i];
		char path[PATH_MAX];

		if (en->kind == PLAN_MOUNT_PROTECT && en->path[0] != '/' && en->path[0] != '~' && en->path[0] != '$') {
			i++;
			continue;
		}
		int r = profile_expand_path(en->path, place, path, e);
		if (r < 0)
			return err_wrap(e, "profile %s", p->name);
		if (r > 0) {
			profile_drop(p, i);
			continue;
		}
		p->text += strlen(path) - strlen(en->path);
		free(en->path);
		en->path = mem_strdup(path);
		i++;
	}
	return 0;
}

/* ---- deciding entries ---- */

/* True for paths that the sandbox creates itself, whatever the host has there. */
static bool is_made_inside(const char *path)
{
	static const char *const made[] = { "/proc", "/sys", "/dev", "/tmp", "/var/tmp", "/run" };

	for (size_t i = 0; i < countof(made); i++)
		if (path_within(made[i], path))
			return true;
	return false;
}

const struct profile_entry *profile_decider(const struct profile *p, const char *path)
{
	const struct profile_entry *best = NULL;

	for (size_t i = 0; i < p->count; i++) {
		const struct profile_entry *en = &p->entry[i];
		if (en->path[0] == '/' && path_within(en->path, path) &&
		    (!best || strlen(en->path) >= strlen(best->path)))
			best = en;
	}
	return best && best->kind == PLAN_MOUNT_SYSTEM && is_made_inside(path) ? NULL : best;
}

/* ---- compiling ---- */

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

bool profile_is_git(const struct profile_paths *place, const char *path, bool within)
{
	for
		PROFILE_EACH_GIT(s, place)
		{
			if (within ? path_within(s + 1, path) : strcmp(s + 1, path) == 0)
				return true;
		}
	return false;
}

/*
 * If the write root itself is the directory with which a protected name begins (.git under any name, .claude), returns
 * the rest of the name; otherwise all of it.
 */
static const char *inside_of(const char *root, const char *name, const struct profile_paths *place)
{
	const char *slash = strrchr(root, '/');
	size_t n = strcspn(name, "/");

	if (strncmp(name, ".git/", 5) == 0 && profile_is_git(place, root, false))
		return name + 5;
	return slash && name[n] && strncmp(slash + 1, name, n) == 0 && !slash[1 + n] ? name + n + 1 : name;
}

/*
 * Extends what is protected in a write root to nested repositories, which were found on disk: as many as fit into a
 * plan, the nearest first. A path that the profile or request names explicitly is left as it is.
 */
static int spread_nested(struct profile *p, const struct profile_paths *place, struct err *e)
{
	const char *end = place->nested ? place->nested + place->nested_len : NULL;
	size_t before = p->count;

	for (const char *s = place->nested; s < end; s += strlen(s) + 1) {
		const struct profile_entry *holder = profile_decider(p, s);

		for (size_t k = 0; holder && holder->kind == PLAN_MOUNT_WRITE && k < before; k++) {
			const struct profile_entry *en = &p->entry[k];
			char path[PATH_MAX];

			if (en->kind != PLAN_MOUNT_PROTECT || en->path[0] == '/' ||
			    !nested_repos_path(s, en->path, path) || is_named(p, path))
				continue;
			if (p->count + NESTED_SPARE >= countof(p->entry) ||
			    p->text + strlen(path) + NESTED_SPARE_TEXT >= PROFILE_TEXT_MAX)
				return 0;
			if (profile_add(p, PLAN_MOUNT_PROTECT, en->flags | PLAN_MOUNT_NESTED, path, e) < 0)
				return -1;
		}
	}
	return 0;
}

/* Applies relative paths to every write root. A path that the profile or request names explicitly is left as it is. */
static int spread_protected(struct profile *p, const struct profile_paths *place, struct err *e)
{
	size_t before = p->count;

	for (size_t i = 0; i < before; i++) {
		for (size_t k = 0; p->entry[i].kind == PLAN_MOUNT_WRITE && k < before; k++) {
			char whole[2 * PATH_MAX], path[PATH_MAX];
			const struct profile_entry *en = &p->entry[k];

			if (en->kind != PLAN_MOUNT_PROTECT || en->path[0] == '/')
				continue;
			snprintf(whole, sizeof whole, "%s/%s", p->entry[i].path,
				 inside_of(p->entry[i].path, en->path, place));
			if (path_clean(whole, path, e) < 0)
				return -1;
			if (!is_named(p, path) && profile_add(p, PLAN_MOUNT_PROTECT, en->flags, path, e) < 0)
				return -1;
		}
	}
	if (spread_nested(p, place, e) < 0)
		return -1;
	/* Without write access there is nothing to protect. */
	for (size_t i = p->count; i-- > 0;)
		if (p->entry[i].path[0] != '/' ||
		    (p->entry[i].kind == PLAN_MOUNT_PROTECT && !in_write_root(p, p->entry[i].path)))
			profile_drop(p, i);
	return 0;
}

static bool is_shown(const char *folder, const struct profile_paths *place)
{
	return path_within(folder, place->workspace) || path_within(folder, place->cwd);
}

/*
 * A directory of bailiff's that is used as a workspace is visible, but read-only: files that do not exist yet (a
 * policy) must not be created there, either, and placeholders for them would be mistaken for the files.
 */
static int keep_folders(struct profile *p, const struct profile_paths *place, struct err *e)
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

/*
 * Hides what a rule denies to read, where it exists, with everything that is shown inside it: as many paths as fit into
 * a plan. The working directory cannot be in one, or commands of a session sandbox would see what begins there.
 */
static int hide_denied(struct profile *p, const struct profile_paths *place, struct err *e)
{
	p->denied_shown = place->denied_more;
	for (const char *s = place->denied; s && s < place->denied + place->denied_len; s += strlen(s) + 1) {
		const struct profile_entry *en = profile_decider(p, s);
		const uint32_t kind = en ? en->kind : PLAN_MOUNT_HIDE;

		if (path_within(s, place->cwd))
			return err_at(e, ERR_PERMISSION, "cwd", "'%.200s' is in '%.200s', which a rule denies to read",
				      place->cwd, s);
		profile_drop_shown(p, place, s);
		if (kind == PLAN_MOUNT_HIDE || kind == PLAN_MOUNT_EMPTY || kind == PLAN_MOUNT_SYSTEM)
			continue;
		if (p->count + NESTED_SPARE >= countof(p->entry) ||
		    p->text + strlen(s) + NESTED_SPARE_TEXT >= PROFILE_TEXT_MAX) {
			p->denied_shown = true;
			return 0;
		}
		if (profile_add(p, PLAN_MOUNT_HIDE, PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_EXACT, s, e) < 0)
			return -1;
	}
	return 0;
}

static int hide_secrets(struct profile *p, const struct profile_paths *place, struct err *e)
{
	for (size_t i = 0; i < place->nfolders; i++)
		if (!is_shown(place->folders[i], place) &&
		    profile_add(p, PLAN_MOUNT_HIDE, PLAN_MOUNT_OPTIONAL, place->folders[i], e) < 0)
			return -1;
	for (size_t i = 0; i < place->nsecrets; i++) {
		const struct profile_entry *en = profile_decider(p, place->secrets[i]);
		bool hidden = en && en->kind == PLAN_MOUNT_HIDE;

		/* If the sandbox cannot write there, a missing path needs no placeholder. */
		if (!hidden &&
		    profile_add(p, PLAN_MOUNT_HIDE, en && en->kind == PLAN_MOUNT_WRITE ? 0 : PLAN_MOUNT_OPTIONAL,
				place->secrets[i], e) < 0)
			return -1;
	}
	return 0;
}

/*
 * Of two entries for one path the later one applies: the caller's own home among all homes, a request's change, a
 * secret.
 */
static void resolve_duplicates(struct profile *p)
{
	for (size_t i = p->count; i-- > 1;) {
		for (size_t k = i; k-- > 0;) {
			if (strcmp(p->entry[i].path, p->entry[k].path) != 0)
				continue;
			profile_drop(p, k);
			i--;
		}
	}
}

static int compare_entries(const void *a, const void *b)
{
	return path_compare(((const struct profile_entry *)a)->path, ((const struct profile_entry *)b)->path);
}

int profile_compile(struct profile *p, const struct profile_paths *place, struct err *e)
{
	if (!p->confined) {
		profile_clear(p, 0);
		return 0;
	}
	if (keep_folders(p, place, e) < 0 || hide_denied(p, place, e) < 0 || spread_protected(p, place, e) < 0 ||
	    hide_secrets(p, place, e) < 0)
		return err_wrap(e, "profile %s", p->name);
	resolve_duplicates(p);
	qsort(p->entry, p->count, sizeof p->entry[0], compare_entries);
	return 0;
}

void profile_require_limit(struct profile *p, enum plan_limit l, uint64_t value)
{
	p->limits.value[l] = value;
	p->limits.required |= 1u << l;
	p->require |= PLAN_LAYER_CGROUP;
}

void profile_drop_root_ids(struct profile *p)
{
	for (size_t i = 0; i < p->count; i++) {
		struct profile_entry *en = &p->entry[i];

		if (en->kind == PLAN_MOUNT_READ && root_path_is_system(en->path))
			en->flags &= ~(uint32_t)PLAN_MOUNT_OWNED;
	}
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
	ret->limits = p->limits;
}
