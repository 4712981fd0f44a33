#ifndef BAILIFF_SANDBOX_KERNEL_H
#define BAILIFF_SANDBOX_KERNEL_H

/*
 * Detects the kernel's features by trying them: a version number says nothing about backports, build options, or a
 * system call filter around the daemon (a container's). Rows are in kernel_features.def.
 *
 * Probes leave nothing behind. Some fork, so the process must have one thread. They run with the caller's own
 * privileges, so they show what bailiffd could do if this user started it.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

#define KERNEL_FEATURES_MAX 32
#define KERNEL_RELEASE_MAX 72

enum kernel_state {
	KERNEL_AVAILABLE,
	KERNEL_MISSING,
	KERNEL_NOT_NEEDED, /* for this user */
};

struct kernel_feature {
	const char *name;
	bool required;
	unsigned major, minor; /* the mainline Linux version that introduced it */
	const char *lost;      /* what is unavailable without it */
	enum kernel_state state;
	char detail[160]; /* what was found, or why it is missing; "" = nothing to add */
	const char *fix;  /* what to do if it is missing; NULL = only another kernel helps */
};

const char *kernel_state_name(enum kernel_state state);

/* uname's, "6.1.0-28-arm64". */
void kernel_release(char ret[KERNEL_RELEASE_MAX]);

/* Runs all probes; returns the number of rows. */
size_t kernel_probe(struct kernel_feature ret[KERNEL_FEATURES_MAX]);

/*
 * Runs the probes of required features. ERR_UNAVAILABLE with one sentence that names the version found and needed, or
 * what a newer kernel lacks.
 */
int kernel_check(struct err *e);

#endif
