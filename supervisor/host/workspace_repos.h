#ifndef BAILIFF_SUPERVISOR_HOST_WORKSPACE_REPOS_H
#define BAILIFF_SUPERVISOR_HOST_WORKSPACE_REPOS_H

/*
 * The repositories of a workspace as the peer's helper finds them (peer_files.h): those nested in it, which are
 * protected like its own, and the git directory that its .git file leads to. Replies of one request are collected, and
 * take effect together when the request has succeeded.
 *
 * Lists are strings, each with its NUL.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct peer_files_reply;

struct workspace_repos {
	uint64_t searched_ns;        /* start of the last successful request; 0 = never */
	uint64_t dev, ino;           /* of the workspace then */
	struct buf nested;           /* the nested paths that are protected */
	struct buf git;              /* as in struct profile_paths */
	struct buf first;            /* what the first request found */
	struct buf found, found_git; /* by the current request … */
	bool partial;                /* … and there may be more */
};

void workspace_repos_done(struct workspace_repos *r);
void workspace_repos_begin(struct workspace_repos *r);
/* A reply with PEER_FILES_NESTED or PEER_FILES_GIT. It comes from a process that runs as the peer and is checked. */
void workspace_repos_add(struct workspace_repos *r, const char *workspace, const struct peer_files_reply *a);
/* If another directory is at the workspace's path now, nothing is known of it. */
void workspace_repos_check(struct workspace_repos *r, uint64_t dev, uint64_t ino);
/* The end of a request that began at this time. */
void workspace_repos_update(struct workspace_repos *r, uint64_t began_ns);
/* Whether the .git file leads to a directory that does not name the workspace: a person may be repairing that. */
bool workspace_repos_unproven(const struct workspace_repos *r);

/* Appends a string unless it is in the list; returns 1 if it was not. */
size_t workspace_repos_add_text(struct buf *list, const char *text);

#endif
