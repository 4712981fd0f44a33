/*
 * Reads the profiles of a policy file. A profile starts as a copy of the one that it extends; its members then add to
 * the copy or replace values. Profiles of one file may extend each other in any order: the base is built on demand, and
 * a limit of depth detects circles. Files are read from the most important to the least; the first definition of a name
 * is used.
 */

#include "policy/profiles.h"
#include "policy/policy_text.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "sandbox/profile.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (1u << 20)
#define PROFILES_MAX 64u
#define EXTENDS_MAX 8u
#define CREDENTIALS_MAX 256u
#define BASE_PROFILE "workspace"

/* One file being read. */
struct file {
	struct policy_text at;
	json_t *profiles;
	struct policy_profiles *known, *found;
};

/* ---- messages ---- */

__attribute__((format(printf, 5, 6))) static int set_error(const struct file *f, const char *profile, const char *key,
							   struct err *e, const char *fmt, ...)
{
	const char *const words[] = { "profiles", profile, key };
	char why[256], field[ERR_FIELD_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	snprintf(field, sizeof field, "profiles%s%.31s%s%.20s", profile ? "." : "", profile ? profile : "",
		 key ? "." : "", key ? key : "");
	return err_field(e, field, "%.80s: line %u: %s: %s", f->at.name,
			 policy_text_line(&f->at, words, countof(words)), field, why);
}

/* ---- members ---- */

static int take_paths(const struct file *f, struct profile *p, const char *key, uint32_t kind, const json_t *v,
		      struct err *e)
{
	struct err inner = ERR_INIT;
	size_t i;
	json_t *item;

	if (!json_is_array(v))
		return set_error(f, p->name, key, e, "must be an array of paths");
	json_array_foreach (v, i, item) {
		const char *s = json_string_value(item);
		bool relative = kind == PLAN_MOUNT_PROTECT;

		if (!s || strlen(s) != json_string_length(item))
			return set_error(f, p->name, key, e, "[%zu] must be a path", i);
		if (s[0] != '/' && s[0] != '~' && s[0] != '$' && !relative)
			return set_error(f, p->name, key, e, "'%.100s' must begin with /, ~ or $WORKSPACE", s);
		if (relative && strstr(s, ".."))
			return set_error(f, p->name, key, e, "'%.100s' leads out of the write root", s);
		if (strcmp(s, "/") == 0 && kind != PLAN_MOUNT_READ)
			return set_error(f, p->name, key, e, "'/' is not possible here: name the directories");
		if (s[0] == '$' && strncmp(s, "$WORKSPACE", 10) != 0)
			return set_error(f, p->name, key, e, "'%.100s' has a variable that is not $WORKSPACE", s);
		/* "/" stands for every entry of the host's root, except those that a sandbox creates itself. */
		uint32_t use = strcmp(s, "/") == 0 ? PLAN_MOUNT_SYSTEM : kind;
		uint32_t flags = use == PLAN_MOUNT_READ || use == PLAN_MOUNT_WRITE ? PLAN_MOUNT_OWNED : 0;
		if (profile_add(p, use, flags, s, &inner) < 0)
			return set_error(f, p->name, key, e, "%s", inner.message);
	}
	return 0;
}

/* A number of bytes, or a text such as "512M". */
static int take_size(const struct file *f, const struct profile *p, const char *key, const json_t *v, uint64_t *ret,
		     struct err *e)
{
	struct err inner = ERR_INIT;
	uint64_t n = json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;

	if (json_is_string(v) && text_size_bytes(json_string_value(v), &n, &inner) < 0)
		return set_error(f, p->name, key, e, "%s", inner.message);
	if ((!json_is_string(v) && !json_is_integer(v)) || n == 0)
		return set_error(f, p->name, key, e, "must be a number above 0, or a size such as \"512M\"");
	*ret = n;
	return 0;
}

static int take_tmp(const struct file *f, struct profile *p, const char *key, const json_t *v, struct err *e)
{
	uint64_t n;

	if (take_size(f, p, key, v, &n, e) < 0)
		return -1;
	if (n < PROFILE_TMP_LEAST)
		return set_error(f, p->name, key, e, "must be at least %u", PROFILE_TMP_LEAST);
	p->tmp_bytes = n;
	return 0;
}

/*
 * A configured limit is relied on, so the layer that enforces it is required. The number of processes is the exception:
 * if no cgroup counts them, the kernel counts them per user (RLIMIT_NPROC).
 */
static int take_limit(const struct file *f, struct profile *p, enum plan_limit l, const json_t *v, struct err *e)
{
	const struct plan_limit_info *row = &plan_limit_info[l];
	bool whole = row->unit != PLAN_UNIT_THOUSANDTHS;
	uint64_t n = plan_limit_scale(l, json_number_value(v));
	char text[64];

	if (row->unit == PLAN_UNIT_BYTES && take_size(f, p, row->key, v, &n, e) < 0)
		return -1;
	if (row->unit != PLAN_UNIT_BYTES && ((whole ? !json_is_integer(v) : !json_is_number(v)) || n == 0))
		return set_error(f, p->name, row->key, e, "must be a number above 0");
	const char *why = plan_limit_refusal(l, n, text);
	if (why)
		return set_error(f, p->name, row->key, e, "%s", why);
	if (l == PLAN_LIMIT_PIDS)
		p->limits.value[l] = n;
	else
		profile_require_limit(p, l, n);
	return 0;
}

/* Layers that must be enforced; cgroup also requires every limit that is set. */
static int take_require(const struct file *f, struct profile *p, const json_t *v, struct err *e)
{
	size_t i;
	json_t *item;

	if (!json_is_array(v))
		return set_error(f, p->name, "require", e, "must be an array of layers");
	json_array_foreach (v, i, item) {
		uint32_t layer = json_is_string(item) ? profile_layer(json_string_value(item)) : 0;
		if (!layer)
			return set_error(f, p->name, "require", e,
					 "unknown layer '%.40s'; expected namespaces, mounts, landlock, seccomp, "
					 "capabilities, cgroup "
					 "or abstractSockets",
					 json_is_string(item) ? json_string_value(item) : "…");
		p->require |= layer;
		if (layer == PLAN_LAYER_CGROUP)
			p->limits.required |= PLAN_LIMITS_ALL;
	}
	return 0;
}

static int take_hosts(const struct file *f, struct profile *p, const json_t *list, bool deny, struct err *e)
{
	struct err inner = ERR_INIT;
	size_t i;
	json_t *item;

	if (!json_is_array(list))
		return set_error(f, p->name, "network", e, "%s must be an array of hosts", deny ? "deny" : "allow");
	json_array_foreach (list, i, item) {
		const char *s = json_string_value(item);

		if (!s || strlen(s) != json_string_length(item))
			return set_error(f, p->name, "network", e, "%s[%zu] must be a host", deny ? "deny" : "allow",
					 i);
		if (profile_add_host(p, s, deny, &inner) < 0)
			return set_error(f, p->name, "network", e, "%s", inner.message);
	}
	return 0;
}

static int take_credentials(const struct file *f, struct profile *p, const json_t *list, struct err *e)
{
	size_t i;
	json_t *item;

	if (!json_is_array(list) || json_array_size(list) > CREDENTIALS_MAX)
		return set_error(f, p->name, "network", e, "credentials must be an array of names");
	json_array_foreach (list, i, item) {
		struct host_rule r;

		if (!json_is_string(item) || !host_rule_credential(json_string_value(item), &r))
			return set_error(f, p->name, "network", e, "credentials[%zu] must be the name of a credential",
					 i);
		host_rules_add(&p->hosts, &r);
	}
	return 0;
}

/* none, host, or the lists of allowed and denied hosts. */
static int take_network(const struct file *f, struct profile *p, json_t *v, struct err *e)
{
	int network = json_is_string(v) ? profile_network(json_string_value(v)) : -1;
	const char *key;
	json_t *list;

	if (network == PLAN_NET_NONE || network == PLAN_NET_HOST) {
		p->network = (uint32_t)network;
		return 0;
	}
	if (!json_is_object(v))
		return set_error(f, p->name, "network", e, "must be none, host, or an object with allow and deny");
	p->network = PLAN_NET_ALLOW;
	json_object_foreach (v, key, list) {
		bool deny = strcmp(key, "deny") == 0, credentials = strcmp(key, "credentials") == 0;

		if (!deny && !credentials && strcmp(key, "allow") != 0)
			return set_error(f, p->name, "network", e,
					 "unknown key '%.30s'; expected allow, deny or credentials", key);
		if (credentials ? take_credentials(f, p, list, e) < 0 : take_hosts(f, p, list, deny, e) < 0)
			return -1;
	}
	return 0;
}

/* One member of a profile; an unknown one is an error, because it may have been meant to restrict. */
static int take_member(const struct file *f, struct profile *p, const char *key, json_t *v, struct err *e)
{
	static const struct {
		const char *key;
		uint32_t kind;
	} lists[] = {
		{ "readRoots", PLAN_MOUNT_READ },
		{ "writeRoots", PLAN_MOUNT_WRITE },
		{ "hidden", PLAN_MOUNT_HIDE },
		{ "protect", PLAN_MOUNT_PROTECT },
	};

	for (size_t i = 0; i < countof(lists); i++)
		if (strcmp(lists[i].key, key) == 0)
			return take_paths(f, p, key, lists[i].kind, v, e);
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (strcmp(plan_limit_info[i].key, key) == 0)
			return take_limit(f, p, (enum plan_limit)i, v, e);
	if (strcmp(key, "tmpBytes") == 0)
		return take_tmp(f, p, key, v, e);
	if (strcmp(key, "network") == 0)
		return take_network(f, p, v, e);
	if (strcmp(key, "require") == 0)
		return take_require(f, p, v, e);
	if (strcmp(key, "cow") == 0) {
		p->cow = json_is_true(v);
		return json_is_boolean(v) ? 0 : set_error(f, p->name, key, e, "must be true or false");
	}
	return set_error(
		f, p->name, key, e,
		"unknown key; expected extends, readRoots, writeRoots, hidden, protect, network, require, cow, "
		"tmpBytes%s",
		plan_limit_keys);
}

/* ---- profiles ---- */

static struct profile *find_profile(const struct policy_profiles *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->profile[i]->name, name) == 0)
			return s->profile[i];
	return NULL;
}

static int build_profile(const struct file *f, const char *name, unsigned depth, struct profile *ret, struct err *e);

/*
 * The profile that this one starts from. If `extends` is its own name, that is the shipped profile, so a file can
 * change shipped profiles as well.
 */
static int begin_profile(const struct file *f, const char *name, const json_t *extends, unsigned depth,
			 struct profile *ret, struct err *e)
{
	const char *base = extends ? json_string_value(extends) : BASE_PROFILE;
	int r;

	if (!base)
		return set_error(f, name, "extends", e, "must be the name of a profile");
	bool own = strcmp(base, name) == 0;
	if (find_profile(f->known, base)) {
		profile_copy(find_profile(f->known, base), ret);
		r = 0;
	} else if (!own && json_object_get(f->profiles, base)) {
		/* Defined later or earlier in the same file: built on demand, so the order does not matter. */
		r = build_profile(f, base, depth + 1, ret, e);
	} else {
		r = profile_shipped(base, ret);
		if (r < 0)
			set_error(f, name, "extends", e, "there is no profile '%.31s'", base);
	}
	if (r == 0 && !ret->confined) {
		profile_done(ret);
		return set_error(f, name, "extends", e, "'%.31s' has no sandbox to change", base);
	}
	return r;
}

/* Builds one profile from its base and its members. */
static int build_profile(const struct file *f, const char *name, unsigned depth, struct profile *ret, struct err *e)
{
	json_t *object = json_object_get(f->profiles, name), *v;
	struct profile p;
	const char *key;

	if (depth > EXTENDS_MAX)
		return set_error(f, name, "extends", e, "is circular, or nested more than %u deep", EXTENDS_MAX);
	if (!json_is_object(object))
		return set_error(f, name, NULL, e, "must be an object");
	if (begin_profile(f, name, json_object_get(object, "extends"), depth, &p, e) < 0)
		return -1;
	snprintf(p.name, sizeof p.name, "%s", name);
	json_object_foreach (object, key, v) {
		if (strcmp(key, "extends") != 0 && take_member(f, &p, key, v, e) < 0) {
			profile_done(&p);
			return -1;
		}
	}
	*ret = p;
	return 0;
}

/* Names appear in options, events and file names. */
static int check_name(const struct file *f, const char *name, struct err *e)
{
	size_t n = strlen(name);

	if (n == 0 || n >= PROFILE_NAME_MAX || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != n)
		return set_error(f, name, NULL, e, "the name of a profile must be 1 to %d characters of a-z 0-9 _ -",
				 PROFILE_NAME_MAX - 1);
	if (strcmp(name, PROFILE_HOST) == 0)
		return set_error(f, name, NULL, e, "'%s' is reserved: it means no sandbox", PROFILE_HOST);
	return 0;
}

static void add_profile(struct policy_profiles *s, struct profile *p)
{
	s->profile = mem_realloc(s->profile, (s->count + 1) * sizeof(*s->profile));
	s->profile[s->count++] = p;
}

/* Builds every profile of the file, including those that a more important file has defined. */
static int read_profiles(const struct file *f, struct err *e)
{
	const char *name;
	json_t *v;

	if (!json_is_object(f->profiles))
		return set_error(f, NULL, NULL, e, "must be an object");
	if (json_object_size(f->profiles) > PROFILES_MAX)
		return set_error(f, NULL, NULL, e, "has more than %u profiles", PROFILES_MAX);
	json_object_foreach (f->profiles, name, v) {
		struct profile p;

		if (check_name(f, name, e) < 0 || build_profile(f, name, 0, &p, e) < 0)
			return -1;
		/* A more important file has defined it. It is built all the same, so that its errors are reported. */
		if (find_profile(f->known, name))
			profile_done(&p);
		else
			add_profile(f->found, mem_dup(&p, sizeof p));
	}
	return 0;
}

int policy_profiles_parse(struct policy_profiles *s, const char *name, const char *text, size_t len, struct err *e)
{
	struct policy_profiles found = { 0 };
	json_auto_t *root = policy_text_load(name, text, len, TEXT_MAX, e);

	if (!root)
		return -1;
	struct file f = { .at = { .name = name, .text = text, .len = len },
			  .profiles = json_object_get(root, "profiles"),
			  .known = s,
			  .found = &found };
	if ((f.profiles && read_profiles(&f, e) < 0) ||
	    sandbox_section_read(&found.section, &f.at, json_object_get(root, "sandbox"), e) < 0) {
		policy_profiles_done(&found);
		return -1;
	}
	sandbox_section_add(&s->section, &found.section);
	sandbox_section_done(&found.section);
	for (size_t i = 0; i < found.count; i++)
		add_profile(s, found.profile[i]);
	free(found.profile);
	return 0;
}

void policy_profiles_done(struct policy_profiles *s)
{
	for (size_t i = 0; i < s->count; i++) {
		profile_done(s->profile[i]);
		free(s->profile[i]);
	}
	free(s->profile);
	sandbox_section_done(&s->section);
	*s = (struct policy_profiles){ 0 };
}

/* "workspace, readonly, …": those of the files first. */
static void policy_profiles_names(const struct policy_profiles *s, struct buf *out)
{
	for (size_t i = 0; i < s->count; i++)
		buf_printf(out, "%s%s", i ? ", " : "", s->profile[i]->name);
	for (size_t i = 0; i < profile_shipped_count(); i++)
		if (!find_profile(s, profile_shipped_info(i)->name))
			buf_printf(out, "%s%s", i || s->count ? ", " : "", profile_shipped_info(i)->name);
}

int policy_profiles_get(const struct policy_profiles *s, const char *name, struct profile *ret, struct err *e)
{
	const struct profile *p = find_profile(s, name);

	if (p)
		profile_copy(p, ret);
	if (p || profile_shipped(name, ret) == 0) {
		sandbox_section_apply_hosts(&s->section, ret);
		return 0;
	}
	buf_auto struct buf names = BUF_INIT;
	policy_profiles_names(s, &names);
	err_set(e, ERR_NOT_FOUND, "there is no profile '%.40s'; expected one of %.300s", name, buf_cstr(&names));
	snprintf(e->field, sizeof e->field, "profile");
	return -1;
}
