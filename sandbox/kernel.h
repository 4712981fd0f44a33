#ifndef BAILIFF_SANDBOX_KERNEL_H
#define BAILIFF_SANDBOX_KERNEL_H

/*
 * What this kernel offers, found by trying: a version number says nothing about backports, about what was left out of a
 * build, or about a filter of system calls around the daemon (a container's). Rows are in kernel_features.def.
 *
 * Probes leave nothing behind. Some fork, so they belong into a process with one thread; they try with the caller's own
 * privileges, so they tell what bailiffd could do if this user started it.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

#define KERNEL_FEATURES_MAX 32
#define KERNEL_RELEASE_MAX 72

enum kernel_state {
	KERNEL_AVAILABLE,
	KERNEL_MISSING,
	KERNEL_NOT_NEEDED, /* by this user */
};

struct kernel_feature {
	const char *name;
	bool required;
	unsigned major, minor; /* of mainline Linux, where it came */
	const char *lost;      /* without it */
	enum kernel_state state;
	char detail[160]; /* what was seen, or why it is missing; "" = nothing to add */
	const char *fix;  /* what to do if it is missing; NULL = nothing but another kernel */
};

const char *kernel_state_name(enum kernel_state state);

/* uname's, "6.1.0-28-arm64". */
void kernel_release(char ret[KERNEL_RELEASE_MAX]);

/* Tries everything; returns the number of rows. */
size_t kernel_probe(struct kernel_feature ret[KERNEL_FEATURES_MAX]);

/* Tries what is required. ERR_UNAVAILABLE with one sentence that names the version found and needed, or what is missing
 * from a newer kernel. */
int kernel_check(struct err *e);

#endif
