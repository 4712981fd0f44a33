#ifndef BAILIFF_SUPERVISOR_HOST_COW_ERRORS_H
#define BAILIFF_SUPERVISOR_HOST_COW_ERRORS_H

/* What clients are told about the answers of the spawner's helper for copy-on-write runs. */

#include "sandbox/change_list.h"

#include <stdint.h>

struct err;
struct jw;

/* The error of a request that failed with this errno. Both return −1. */
int cow_helper_error(enum change_op op, int error, struct err *e);
int cow_copy_error(int error, uint64_t budget, struct err *e);
/* −1 if the undo found that its journal is damaged. */
int cow_check_journal(const char *id, const struct change_list_undo *undo, struct err *e);
/* The members of a reply about undoing. */
void cow_write_undo(const struct change_list_undo *undo, struct jw *w);

#endif
