#ifndef BAILIFF_SANDBOX_CAPABILITY_H
#define BAILIFF_SANDBOX_CAPABILITY_H

/*
 * The capabilities of this process, by libcap. libcap allocates. That is safe in the spawner's clones, because the
 * spawner has one thread, but it is not done for each command: capability_prepare allocates before the clone.
 */

#include <stdbool.h>
#include <stddef.h>

/* Whether it is in the effective set. Being root says little about it: a container takes most capabilities away. */
bool capability_has(int capability);

/* Allocates what capability_clear uses, once for a process and its clones. */
void capability_prepare(void);

/* These return 0, or −1 with errno. */
int capability_clear(void); /* empties the effective, permitted and inheritable sets */
int capability_keep_only(const int *capabilities, size_t n);
int capability_lower_to(int capability); /* effective: this one alone; the permitted set stays */
int capability_raise_all(void);          /* effective: all that is permitted */

/* Empties the bounding set: nothing that is executed later gains a capability. The process's own sets stay. */
void capability_drop_bounds(void);

#endif
