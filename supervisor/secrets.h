#ifndef BAILIFF_SUPERVISOR_SECRETS_H
#define BAILIFF_SUPERVISOR_SECRETS_H

/* What of this daemon no sandbox may see: its socket, store, spool, files; and the folders that hold them. */

#include <stddef.h>

struct secrets {
	const char *path[16];
	size_t npath;
	const char *folder[4];
	size_t nfolder;
};

/* The folders' real names; NULL or "" = none. */
void secrets_init(struct secrets *s, const char *run, const char *state, const char *config);
void secrets_done(struct secrets *s);

#endif
