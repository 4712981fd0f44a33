#ifndef BAILIFF_SUPERVISOR_COMMON_PROCESS_TITLE_H
#define BAILIFF_SUPERVISOR_COMMON_PROCESS_TITLE_H

/*
 * What ps shows. The kernel reads a process's arguments from where exec put them, so a title is written over that
 * place: the arguments and, when they end where the environment begins, the environment's strings too (moved away
 * first).
 */

#include <stddef.h>

struct process_title {
	char *area;
	size_t size;
};

/* Copies argv and environ to the heap (argv in place of its pointers), so that the area may be written. */
void process_title_init(struct process_title *t, int argc, char **argv);
/* "bailiffd: guard"; the part after the last space also becomes the thread's name. Cut to what fits. */
void process_title_set(struct process_title *t, const char *text);

#endif
