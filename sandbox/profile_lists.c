/* The lists of paths of a policy (policy/sandbox_section.h). What they deny takes precedence over what they allow. */

#include "sandbox/profile_private.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"

#include <stdlib.h>
#include <string.h>

void profile_lists_add(struct profile_lists *l, uint32_t kind, unsigned file, const char *path)
{
	l->entry = mem_realloc(l->entry, (l->count + 1) * sizeof(*l->entry));
	l->entry[l->count++] = (struct profile_listed){ kind, file, mem_strdup(path) };
}

void profile_lists_done(struct profile_lists *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->entry[i].path);
	free(l->entry);
	*l = (struct profile_lists){ 0 };
}

/* What does not apply here, because there is no home or workspace, is left out. */
static int expand_lists(const struct profile_lists *l, const struct profile_paths *place, struct profile_lists *ret,
			struct err *e)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct profile_listed *en = &l->entry[i];
		char path[PATH_MAX];
		int r = profile_expand_path(en->path, place, path, e);

		if (r < 0)
			return err_wrap(e, "sandbox.filesystem");
		if (r == 0)
			profile_lists_add(ret, en->kind, en->file, path);
	}
	return 0;
}

/* Whether a list denies what this entry would allow: for the same path, or in a more important file. */
static bool is_denied(const struct profile_lists *l, const struct profile_listed *allowed)
{
	for (size_t i = 0; i < l->count; i++) {
		const struct profile_listed *en = &l->entry[i];

		if (en->kind != PLAN_MOUNT_HIDE &&
		    (en->kind != PLAN_MOUNT_PROTECT || allowed->kind != PLAN_MOUNT_WRITE))
			continue;
		if (strcmp(en->path, allowed->path) == 0 ||
		    (en->file < allowed->file && path_within(en->path, allowed->path)))
			return true;
	}
	return false;
}

static int hide_path(struct profile *p, const char *path, const struct profile_paths *place, struct err *e)
{
	const struct profile_entry *en = profile_decider(p, path);
	/* A folder of the sandbox's own shows nothing of the host's. */
	const bool private = en && en->kind == PLAN_MOUNT_EMPTY && strcmp(en->path, path) == 0;

	if (path_within(place->workspace, path) && path_within(path, place->cwd))
		return err_at(e, ERR_PERMISSION, "cwd", "'%.200s' is in '%.200s', which the policy hides", place->cwd,
			      path);
	profile_drop_shown(p, place, path);
	return private ? 0 : profile_add(p, PLAN_MOUNT_HIDE, PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_EXACT, path, e);
}

static int show_path(struct profile *p, const struct profile_lists *l, const struct profile_listed *listed, bool writes,
		     struct err *e)
{
	const struct profile_entry *en = profile_decider(p, listed->path);
	const uint32_t kind = en ? en->kind : PLAN_MOUNT_HIDE;

	if (is_denied(l, listed) || kind == PLAN_MOUNT_WRITE || (listed->kind == PLAN_MOUNT_WRITE && !writes) ||
	    (listed->kind == PLAN_MOUNT_READ && kind == PLAN_MOUNT_READ))
		return 0;
	return profile_add(p, listed->kind, PLAN_MOUNT_OWNED | PLAN_MOUNT_OPTIONAL, listed->path, e);
}

static int protect_path(struct profile *p, const char *path, struct err *e)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->entry[i].kind == PLAN_MOUNT_WRITE && path_within(path, p->entry[i].path))
			p->entry[i].kind = PLAN_MOUNT_READ;
	const struct profile_entry *en = profile_decider(p, path);
	return en && en->kind == PLAN_MOUNT_WRITE ? profile_add(p, PLAN_MOUNT_PROTECT, 0, path, e) : 0;
}

static int apply_kind(struct profile *p, const struct profile_lists *l, uint32_t kind,
		      const struct profile_paths *place, struct err *e)
{
	bool writes = false;

	for (size_t i = 0; i < p->count; i++)
		writes |= p->entry[i].kind == PLAN_MOUNT_WRITE;
	for (size_t i = 0; i < l->count; i++) {
		const struct profile_listed *en = &l->entry[i];

		if (en->kind == kind && (kind == PLAN_MOUNT_HIDE      ? hide_path(p, en->path, place, e)
					 : kind == PLAN_MOUNT_PROTECT ? protect_path(p, en->path, e)
								      : show_path(p, l, en, writes, e)) < 0)
			return -1;
	}
	return 0;
}

int profile_apply_lists(struct profile *p, const struct profile_lists *l, const struct profile_paths *place,
			struct err *e)
{
	static const uint32_t order[] = { PLAN_MOUNT_HIDE, PLAN_MOUNT_READ, PLAN_MOUNT_WRITE, PLAN_MOUNT_PROTECT };
	struct profile_lists here = { 0 };
	int r = p->confined && l->count ? expand_lists(l, place, &here, e) : 0;

	for (size_t i = 0; r == 0 && i < countof(order); i++)
		r = apply_kind(p, &here, order[i], place, e);
	profile_lists_done(&here);
	return r;
}
