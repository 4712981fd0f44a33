#ifndef BAILIFF_SUPERVISOR_COMMON_PROCESS_TITLE_H
#define BAILIFF_SUPERVISOR_COMMON_PROCESS_TITLE_H

/*
 * The title that ps shows. The kernel reads a process's arguments from where exec put them, so a title overwrites that
 * memory: the arguments and, where the environment follows directly, its strings too (which are copied away first).
 */

#include <stddef.h>

struct process_title {
	char *area;
	size_t size;
};

/* Copies argv and environ to the heap, replacing argv's pointers, so that the area can be overwritten. */
void process_title_init(struct process_title *t, int argc, char **argv);
/* "bailiffd: guard"; the part after the last space also becomes the thread's name. Truncated to what fits. */
void process_title_set(struct process_title *t, const char *text);
/* The same, but the thread keeps its name. */
void process_title_replace(struct process_title *t, const char *text);

#endif
