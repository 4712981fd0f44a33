#ifndef BAILIFF_TESTS_POLICY_SCRIPTS_H
#define BAILIFF_TESTS_POLICY_SCRIPTS_H

/* The shell scripts that the packages of this machine have installed. */

#include "policy/shell/shell.h"
#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define SCRIPTS_MAX 2000

struct scripts {
	char *path[SCRIPTS_MAX];
	bool bash[SCRIPTS_MAX]; /* its first line names bash; otherwise it is for sh */
	size_t count;
};

void scripts_find(struct scripts *s);
void scripts_done(struct scripts *s);
void scripts_read(const char *path, struct buf *out);

#endif
