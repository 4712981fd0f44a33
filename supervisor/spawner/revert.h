#ifndef BAILIFF_SUPERVISOR_REVERT_H
#define BAILIFF_SUPERVISOR_REVERT_H

/*
 * Reverting what a run did to autorun files (sandbox/autorun.h), on the spawner's side. Like everything that is done
 * about a run's changes it is the work of a helper (cow.h) that has taken on the identity of whom the run belongs to.
 *
 * The runtime brings the report, and is not trusted: only a report with our seal is acted on, so the runtime cannot
 * have other files written or other content. A file is put back only if it is still as the run left it, or is already
 * as it was before.
 */

#include "sandbox/autorun_report.h"

struct buf;

/* The key of the seals of this home; made when there is none. Without a folder (−1) it lasts as long as the spawner. */
void revert_key_load(int folder, uint8_t key[AUTORUN_SEAL_BYTES]);

/* A report, from a descriptor. 0, or −1 with errno: EBADMSG if it is not one of ours. */
int revert_read(int fd, const uint8_t key[AUTORUN_SEAL_BYTES], struct buf *ret);
/* Puts back those of the chosen paths, and lists what was done (sandbox/change_list.h). In the identity of whom it
 * concerns. */
void revert_apply(const void *report, const char *paths, size_t paths_len, struct buf *out);

#endif
