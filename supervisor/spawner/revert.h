#ifndef BAILIFF_SUPERVISOR_REVERT_H
#define BAILIFF_SUPERVISOR_REVERT_H

/*
 * Reverts a run's changes to autorun files (sandbox/autorun.h). Like all work on a run's changes it is done by a helper
 * (cow.h) that has assumed the identity of the run's owner.
 *
 * The runtime provides the report and is not trusted: only a report with the spawner's seal is used, so the runtime
 * cannot choose other files or contents. A file is restored only if it is still as the run left it, or already as it
 * was before the run.
 */

#include "sandbox/autorun_report.h"

struct buf;

/*
 * Loads the key that seals this home's reports; creates it if missing. Without a directory (−1) the key lasts as long
 * as the spawner.
 */
void revert_key_load(int folder, uint8_t key[AUTORUN_SEAL_BYTES]);

/* Reads a report. Returns 0, or −1 with errno: EBADMSG if the seal is not valid. */
int revert_read(int fd, const uint8_t key[AUTORUN_SEAL_BYTES], struct buf *ret);
/* Restores the selected paths and lists the outcomes (sandbox/change_list.h). Call with the owner's identity. */
void revert_apply(const void *report, const char *paths, size_t paths_len, struct buf *out);

#endif
