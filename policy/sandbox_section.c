#include "policy/sandbox_section.h"

#include "policy/policy_text.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <jansson.h>
#include <string.h>

#define LIST_MAX 256u
#define PATHS_MAX 32u

/* ---- hosts ---- */

static int take_hosts(const struct policy_text *f, const json_t *network, const char *key, bool deny,
		      struct host_rules *ret, struct err *e)
{
	const char *const words[] = { "sandbox", "network", key };
	const json_t *list = json_object_get(network, key);
	struct err inner = ERR_INIT;
	size_t i;
	json_t *item;

	if (list && (!json_is_array(list) || json_array_size(list) > LIST_MAX))
		return err_field(e, "sandbox.network",
				 "%.80s: line %u: sandbox.network.%s: must be an array of at most %u hosts", f->name,
				 policy_text_line(f, words, countof(words)), key, LIST_MAX);
	json_array_foreach (list, i, item) {
		const char *s = json_string_value(item);
		struct host_rule r;

		if (!s || host_rule_parse(s, deny, &r, &inner) < 0)
			return err_field(e, "sandbox.network", "%.80s: line %u: sandbox.network.%s[%zu]: %s", f->name,
					 policy_text_line(f, words, countof(words)), key, i,
					 s ? inner.message : "must be a host");
		host_rules_add(ret, &r);
	}
	return 0;
}

static void apply_hosts(const struct sandbox_section *s, struct profile *p)
{
	bool takes = p->network == PLAN_NET_ALLOW ||
		     (p->network == PLAN_NET_NONE && strcmp(p->name, PROFILE_DEFAULT) == 0);

	for (size_t i = 0; i < s->hosts.count; i++) {
		const struct host_rule *r = &s->hosts.rule[i];

		if (!r->deny && !takes)
			continue;
		host_rules_add(&p->hosts, r);
		if (!r->deny)
			p->network = PLAN_NET_ALLOW;
	}
}

/* ---- paths ---- */

static const struct path_list {
	const char *key;
	uint32_t kind, flags;
} path_lists[] = {
	{ "allowRead", PLAN_MOUNT_READ, PLAN_MOUNT_OWNED | PLAN_MOUNT_OPTIONAL },
	{ "allowWrite", PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED | PLAN_MOUNT_OPTIONAL },
	{ "denyWrite", PLAN_MOUNT_PROTECT, 0 },
	{ "denyRead", PLAN_MOUNT_HIDE, PLAN_MOUNT_OPTIONAL },
};

/* In the notation of profiles; NULL, and why not. */
static char *profile_path(const char *s, const char **why)
{
	size_t n = strlen(s);

	*why = NULL;
	n -= n > 3 && strcmp(s + n - 3, "/**") == 0 ? 3 : 0;
	while (n > 1 && s[n - 1] == '/')
		n--;
	mem_auto char *path = mem_strndup(s, n);
	if (!n || strstr(path, ".."))
		*why = "must be a path without '..'";
	else if (strpbrk(path, "*?["))
		*why = "has a wildcard: name a file or a folder";
	else if (strcmp(path, "/") == 0)
		*why = "'/' is not possible here: name the directories";
	else if (*path == '$' && strncmp(path, "$WORKSPACE", 10) != 0)
		*why = "has a variable that is not $WORKSPACE";
	if (*why)
		return NULL;
	if (strncmp(path, "//", 2) == 0)
		return mem_strdup(path + 1);
	if (strchr("/~$", *path))
		return mem_strdup(path);
	return strcmp(path, ".") == 0 ? mem_strdup("$WORKSPACE")
				      : mem_printf("$WORKSPACE/%s", strncmp(path, "./", 2) == 0 ? path + 2 : path);
}

static int take_paths(const struct policy_text *f, const json_t *filesystem, const struct path_list *row,
		      struct profile *ret, struct err *e)
{
	const char *const words[] = { "sandbox", "filesystem", row->key };
	const json_t *list = json_object_get(filesystem, row->key);
	size_t i;
	json_t *item;

	if (list && (!json_is_array(list) || json_array_size(list) > PATHS_MAX))
		return err_field(e, "sandbox.filesystem",
				 "%.80s: line %u: sandbox.filesystem.%s: must be an array of at most %u paths", f->name,
				 policy_text_line(f, words, countof(words)), row->key, PATHS_MAX);
	json_array_foreach (list, i, item) {
		const char *s = json_string_value(item), *why = "must be a path";
		mem_auto char *path = s && strlen(s) == json_string_length(item) ? profile_path(s, &why) : NULL;
		struct err inner = ERR_INIT;

		if (path && row->kind == PLAN_MOUNT_HIDE && strcmp(path, "$WORKSPACE") == 0)
			why = "the workspace itself cannot be hidden";
		else if (path && profile_add(ret, row->kind, row->flags, path, &inner) < 0)
			why = inner.message;
		if (why)
			return err_field(e, "sandbox.filesystem", "%.80s: line %u: sandbox.filesystem.%s[%zu]: %s",
					 f->name, policy_text_line(f, words, countof(words)), row->key, i, why);
	}
	return 0;
}

static bool has_kind(const struct profile *p, uint32_t kind)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == kind)
			return true;
	return false;
}

/* A folder of the sandbox's own shows nothing of the host's. */
static bool is_private(const struct profile *p, const char *path)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == PLAN_MOUNT_EMPTY && strcmp(p->entry[i].path, path) == 0)
			return true;
	return false;
}

/* The last entry for a path applies, so the lists that deny come last. */
static int apply_paths(const struct profile *paths, struct profile *p, struct err *e)
{
	const bool writes = has_kind(p, PLAN_MOUNT_WRITE);

	for (size_t i = 0; i < paths->count; i++)
		if (paths->entry[i].kind == PLAN_MOUNT_HIDE)
			profile_drop_shown(p, paths->entry[i].path);
	for (size_t k = 0; k < countof(path_lists); k++)
		for (size_t i = 0; i < paths->count; i++) {
			const struct profile_entry *en = &paths->entry[i];

			if (en->kind != path_lists[k].kind || (en->kind == PLAN_MOUNT_WRITE && !writes) ||
			    (en->kind == PLAN_MOUNT_HIDE && is_private(p, en->path)))
				continue;
			if (profile_add(p, en->kind, en->flags, en->path, e) < 0)
				return err_wrap(e, "sandbox.filesystem");
		}
	return 0;
}

/* Whether the entry would allow what one of the first `n`, those of more important files, denies. */
static bool is_overruled(const struct profile *paths, size_t n, const struct profile_entry *en)
{
	for (size_t i = 0; i < n; i++) {
		const struct profile_entry *other = &paths->entry[i];
		const bool hides = other->kind == PLAN_MOUNT_HIDE &&
				   (en->kind == PLAN_MOUNT_READ || en->kind == PLAN_MOUNT_WRITE),
			   protects = other->kind == PLAN_MOUNT_PROTECT && en->kind == PLAN_MOUNT_WRITE;

		if ((hides || protects) && path_within(other->path, en->path))
			return true;
	}
	return false;
}

/* ---- the section ---- */

/* Whether it has members that this version ignores. */
static bool has_others(const json_t *sandbox)
{
	const json_t *network = json_object_get(sandbox, "network"),
		     *filesystem = json_object_get(sandbox, "filesystem");
	size_t hosts = !!json_object_get(network, "allowedDomains") + !!json_object_get(network, "deniedDomains");
	size_t paths = 0;

	for (size_t i = 0; i < countof(path_lists); i++)
		paths += json_object_get(filesystem, path_lists[i].key) != NULL;
	return json_object_size(sandbox) > (network ? 1u : 0u) + (filesystem ? 1u : 0u) ||
	       json_object_size(network) > hosts || json_object_size(filesystem) > paths;
}

int sandbox_section_read(struct sandbox_section *s, const struct policy_text *f, const json_t *sandbox, struct err *e)
{
	const json_t *network = json_object_get(sandbox, "network"),
		     *filesystem = json_object_get(sandbox, "filesystem");

	if (take_hosts(f, network, "allowedDomains", false, &s->hosts, e) < 0 ||
	    take_hosts(f, network, "deniedDomains", true, &s->hosts, e) < 0)
		return -1;
	for (size_t i = 0; i < countof(path_lists); i++)
		if (take_paths(f, filesystem, &path_lists[i], &s->paths, e) < 0)
			return -1;
	s->partial = has_others(sandbox);
	return 0;
}

int sandbox_section_add(struct sandbox_section *s, const struct sandbox_section *more, struct err *e)
{
	const size_t before = s->paths.count;

	for (size_t i = 0; i < more->paths.count; i++) {
		const struct profile_entry *en = &more->paths.entry[i];

		if (!is_overruled(&s->paths, before, en) &&
		    profile_add(&s->paths, en->kind, en->flags, en->path, e) < 0)
			return err_wrap(e, "sandbox.filesystem");
	}
	for (size_t i = 0; i < more->hosts.count; i++)
		host_rules_add(&s->hosts, &more->hosts.rule[i]);
	s->partial |= more->partial;
	return 0;
}

int sandbox_section_apply(const struct sandbox_section *s, struct profile *p, struct err *e)
{
	if (!p->confined)
		return 0;
	apply_hosts(s, p);
	return apply_paths(&s->paths, p, e);
}

void sandbox_section_done(struct sandbox_section *s)
{
	host_rules_done(&s->hosts);
	profile_done(&s->paths);
}
