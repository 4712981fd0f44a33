#ifndef BAILIFF_POLICY_POLICY_EDIT_H
#define BAILIFF_POLICY_POLICY_EDIT_H

/*
 * Adds rules to the text of a policy file. The rest of the text stays unchanged to the byte; the added lines follow the
 * layout of their neighbours.
 */

#include <stddef.h>

struct buf;
struct err;

/*
 * list: allow, ask or deny. Rules that are already in the list are not added again. ret_line: the line of the first
 * rule. text may be empty: creates a new file.
 */
int policy_edit_add(const char *text, size_t len, const char *list, const char *const *rule, size_t count,
		    struct buf *out, unsigned *ret_line, struct err *e);

#endif
