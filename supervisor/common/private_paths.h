#ifndef BAILIFF_SUPERVISOR_COMMON_PRIVATE_PATHS_H
#define BAILIFF_SUPERVISOR_COMMON_PRIVATE_PATHS_H

/*
 * What of this daemon no sandbox may see: its socket, store, spool, files; the folders that hold them; and what the
 * configuration names besides, like a file with tokens that is kept elsewhere.
 */

#include <stddef.h>

struct private_paths {
	const char *path[24];
	size_t npath;
	const char *folder[4];
	size_t nfolder;
};

/* The folders' real names; NULL or "" = none. */
void private_paths_init(struct private_paths *s, const char *run, const char *state, const char *config);
/* One more; clean. What there is no room for is not taken: −1. */
int private_paths_add(struct private_paths *s, const char *path);
void private_paths_done(struct private_paths *s);

#endif
