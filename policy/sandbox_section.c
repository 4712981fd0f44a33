#include "policy/sandbox_section.h"

#include "policy/policy_text.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <jansson.h>
#include <limits.h>
#include <string.h>

#define LIST_MAX 256u
#define PATHS_MAX 24u         /* in each list */
#define PATHS_BYTES_MAX 3072u /* of one file */

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

void sandbox_section_apply_hosts(const struct sandbox_section *s, struct profile *p)
{
	bool takes = p->network == PLAN_NET_ALLOW ||
		     (p->network == PLAN_NET_NONE && strcmp(p->name, PROFILE_DEFAULT) == 0);

	for (size_t i = 0; p->confined && i < s->hosts.count; i++) {
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
	uint32_t kind;
} path_lists[] = {
	{ "denyRead", PLAN_MOUNT_HIDE },
	{ "allowRead", PLAN_MOUNT_READ },
	{ "allowWrite", PLAN_MOUNT_WRITE },
	{ "denyWrite", PLAN_MOUNT_PROTECT },
};

/* Why a path cannot be used; NULL: it can. */
static const char *refuse_path(const char *path)
{
	static const char *const made[] = { "/proc", "/sys", "/dev" };

	if (!*path)
		return "must not be empty";
	if (strpbrk(path, "*?["))
		return "has a wildcard: name a file or a folder";
	if (strcmp(path, "/") == 0)
		return "'/' is not possible here: name the directories";
	if (*path == '~' && path[1] && path[1] != '/')
		return "names another user's home: write it out";
	if (*path == '$' && (strncmp(path, "$WORKSPACE", 10) != 0 || (path[10] && path[10] != '/')))
		return "has a variable that is not $WORKSPACE";
	for (size_t i = 0; i < countof(made); i++)
		if (path_within(made[i], path))
			return "is the sandbox's own: it cannot be changed";
	for (const char *s = path; *s; s += strcspn(s, "/"), s += *s == '/') {
		const size_t n = strcspn(s, "/");

		if (n == 2 && strncmp(s, "..", 2) == 0)
			return "must be a path without '..'";
		if (n > NAME_MAX)
			return "has a name that is too long";
	}
	return NULL;
}

/* In the notation of profiles; NULL, and why not. */
static char *profile_path(const char *s, const char **why)
{
	size_t n = strlen(s);

	s += strncmp(s, "//", 2) == 0;
	n = strlen(s);
	n -= n > 3 && strcmp(s + n - 3, "/**") == 0 ? 3 : 0;
	while (n > 1 && s[n - 1] == '/')
		n--;
	mem_auto char *path = mem_strndup(s, n);
	*why = refuse_path(path);
	if (*why)
		return NULL;
	return strchr("/~$", *path) ? mem_strdup(path) : mem_printf("$WORKSPACE/%s", path);
}

static int take_paths(const struct policy_text *f, const json_t *filesystem, const struct path_list *row, size_t *space,
		      struct profile_lists *ret, struct err *e)
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

		if (path && strlen(path) >= *space)
			why = "the paths have too many bytes together";
		if (why)
			return err_field(e, "sandbox.filesystem", "%.80s: line %u: sandbox.filesystem.%s[%zu]: %s",
					 f->name, policy_text_line(f, words, countof(words)), row->key, i, why);
		*space -= strlen(path) + 1;
		profile_lists_add(ret, row->kind, 0, path);
	}
	return 0;
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
	size_t space = PATHS_BYTES_MAX;

	if (take_hosts(f, network, "allowedDomains", false, &s->hosts, e) < 0 ||
	    take_hosts(f, network, "deniedDomains", true, &s->hosts, e) < 0)
		return -1;
	for (size_t i = 0; i < countof(path_lists); i++)
		if (take_paths(f, filesystem, &path_lists[i], &space, &s->paths, e) < 0)
			return -1;
	s->partial = has_others(sandbox);
	return 0;
}

void sandbox_section_add(struct sandbox_section *s, const struct sandbox_section *more)
{
	for (size_t i = 0; i < more->paths.count; i++)
		profile_lists_add(&s->paths, more->paths.entry[i].kind, s->files, more->paths.entry[i].path);
	for (size_t i = 0; i < more->hosts.count; i++)
		host_rules_add(&s->hosts, &more->hosts.rule[i]);
	s->files++;
	s->partial |= more->partial;
}

void sandbox_section_done(struct sandbox_section *s)
{
	host_rules_done(&s->hosts);
	profile_lists_done(&s->paths);
}
