#ifndef BAILIFF_POLICY_POLICY_EDIT_H
#define BAILIFF_POLICY_POLICY_EDIT_H

/*
 * Rules put into the text of a policy file. Everything else in it stays as its author wrote it, to the byte; what is
 * added is laid out like its neighbours.
 */

#include <stddef.h>

struct buf;
struct err;

/* list: allow, ask, deny. Rules that are there already are not added again. ret_line: of the first. text may be empty:
 * a new file. */
int policy_edit_add(const char *text, size_t len, const char *list, const char *const *rule, size_t count,
		    struct buf *out, unsigned *ret_line, struct err *e);

#endif
