#ifndef BAILIFF_SUPERVISOR_COMMON_PRIVATE_PATHS_H
#define BAILIFF_SUPERVISOR_COMMON_PRIVATE_PATHS_H

/*
 * The daemon's own files, which no sandbox may see: its socket, store, spool and configuration; the directories that
 * contain them; and further paths of the configuration, such as a file with tokens.
 */

#include <stddef.h>

struct private_paths {
	const char *path[24];
	size_t npath;
	const char *folder[4];
	size_t nfolder;
};

/* Real paths of the directories; NULL or "" = none. */
void private_paths_init(struct private_paths *s, const char *run, const char *state, const char *config);
/* Adds a normalised path. −1: there are too many. */
int private_paths_add(struct private_paths *s, const char *path);
void private_paths_done(struct private_paths *s);

#endif
