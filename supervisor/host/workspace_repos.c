#include "supervisor/host/workspace_repos.h"

#include "runtime/base/err.h"
#include "runtime/base/path.h"
#include "sandbox/nested_repos.h"
#include "sandbox/profile.h"
#include "supervisor/spawner/peer_files.h"

#include <stdio.h>
#include <string.h>

void workspace_repos_done(struct workspace_repos *r)
{
	buf_done(&r->nested);
	buf_done(&r->git);
	buf_done(&r->first);
	buf_done(&r->found);
	buf_done(&r->found_git);
}

void workspace_repos_begin(struct workspace_repos *r)
{
	buf_reset(&r->found);
	buf_reset(&r->found_git);
	r->partial = false;
}

size_t workspace_repos_add_text(struct buf *list, const char *text)
{
	if (buf_has_text(list, text))
		return 0;
	buf_append(list, text, strlen(text) + 1);
	return 1;
}

static size_t count_texts(const struct buf *list)
{
	size_t n = 0;

	for (const char *s = list->data; s && s < list->data + list->len; s += strlen(s) + 1)
		n++;
	return n;
}

static void copy_list(const struct buf *from, struct buf *to)
{
	buf_reset(to);
	buf_append(to, from->data, from->len);
}

/* Nested paths are in the workspace, or are the workspace, or are in its git directory, which was reported before. */
static bool is_in_reach(const struct workspace_repos *r, const char *workspace, const char *path)
{
	for (const char *s = r->found_git.data; s && s < r->found_git.data + r->found_git.len; s += strlen(s) + 1)
		if (s[0] != PROFILE_GIT_UNPROVEN && path_within(s + 1, path))
			return true;
	return path_within(workspace, path);
}

void workspace_repos_add(struct workspace_repos *r, const char *workspace, const struct peer_files_reply *a)
{
	char clean[PATH_MAX], entry[PATH_MAX + 1];

	r->partial |= a->index == PEER_FILES_NESTED && !a->path[0];
	if (path_clean(a->path, clean, NULL) < 0 || strcmp(clean, a->path) != 0)
		return;
	if (a->index == PEER_FILES_GIT && count_texts(&r->found_git) < 2 && a->git && strchr("cwmu", (int)a->git)) {
		snprintf(entry, sizeof entry, "%c%s", (int)a->git, clean);
		workspace_repos_add_text(&r->found_git, entry);
	}
	if (a->index == PEER_FILES_NESTED && count_texts(&r->found) < NESTED_REPOS_FOUND_MAX &&
	    is_in_reach(r, workspace, clean))
		workspace_repos_add_text(&r->found, clean);
}

void workspace_repos_check(struct workspace_repos *r, uint64_t dev, uint64_t ino)
{
	if (dev != r->dev || ino != r->ino)
		r->searched_ns = 0;
	r->dev = dev;
	r->ino = ino;
}

/*
 * Paths that are protected already come first, or a command could create so many that they no longer fit; they are
 * dropped when a complete request does not find them. Then policy files; of the rest, what existed before anything was
 * started here.
 */
void workspace_repos_update(struct workspace_repos *r, uint64_t began_ns)
{
	buf_auto struct buf before = BUF_INIT;
	size_t n = 0;

	if (!r->searched_ns) {
		copy_list(&r->found, &r->first);
		buf_reset(&r->nested);
	}
	r->searched_ns = began_ns;
	copy_list(&r->found_git, &r->git);
	copy_list(&r->nested, &before);
	buf_reset(&r->nested);
	for (const char *s = before.data; s && s < before.data + before.len; s += strlen(s) + 1)
		if (r->partial || buf_has_text(&r->found, s))
			n += workspace_repos_add_text(&r->nested, s);
	for (int policies = 1; policies >= 0; policies--)
		for (const char *s = r->found.data; s && s < r->found.data + r->found.len && n < NESTED_REPOS_MAX;
		     s += strlen(s) + 1)
			if (nested_repos_is_policy(s) == policies && (policies || buf_has_text(&r->first, s)))
				n += workspace_repos_add_text(&r->nested, s);
}

bool workspace_repos_unproven(const struct workspace_repos *r)
{
	return r->git.len && r->git.data[0] == PROFILE_GIT_UNPROVEN;
}
