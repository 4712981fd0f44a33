#ifndef BAILIFF_SANDBOX_SYSFILTER_H
#define BAILIFF_SANDBOX_SYSFILTER_H

/*
 * The seccomp filters of confined processes: syscall_sets.def compiled to BPF. Built once when the spawner starts;
 * installed in each sandbox's init without allocating. See sysfilter.c for their structure.
 */

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define SYSFILTER_CONDITIONS 8
#define SYSFILTER_NUMBERS 512 /* above all numbers that kernels have; higher ones are unknown calls */

enum sysfilter_action {
	SYSFILTER_ALLOW,
	SYSFILTER_DENY,   /* denied and logged */
	SYSFILTER_ABSENT, /* as if the kernel lacked it; not logged */
};

enum sysfilter_set {
#define SYSCALL_SET(NAME, action, summary, names) SYSFILTER_SET_##NAME,
#define SYSCALL_NEW(name, number)
#define SYSCALL_CHECK(name, action, errnum, ...)
#include "sandbox/syscall_sets.def"
#undef SYSCALL_SET
#undef SYSCALL_NEW
#undef SYSCALL_CHECK
	SYSFILTER_SET_COUNT
};

struct sysfilter_set_info {
	const char *name; /* "FILE_SYSTEM" */
	enum sysfilter_action action;
	const char *summary;
	const char *names; /* separated by spaces */
};
extern const struct sysfilter_set_info sysfilter_sets[SYSFILTER_SET_COUNT];

struct sysfilter_program {
	struct sock_filter *code;
	unsigned short len;
};

struct sysfilter {
	struct sysfilter_program denied; /* denials that are logged */
	struct sysfilter_program absent; /* those that are not, with all unknown calls */
	struct sysfilter_program whole;  /* both in one, if nothing is logged */
};

/* For the running kernel. */
int sysfilter_build(struct sysfilter *f, struct err *e);
/* For another architecture: SCMP_ARCH_X86_64 or SCMP_ARCH_AARCH64; for tests. */
int sysfilter_build_for(struct sysfilter *f, uint32_t arch, struct err *e);
void sysfilter_done(struct sysfilter *f);

/*
 * Applies to this thread and its children; no_new_privs must be set. `log`: denials go to the kernel's audit. −1 with
 * errno.
 */
int sysfilter_install(const struct sysfilter *f, bool log);

/* Why an allowed call can be denied by its arguments; NULL for others. The text is static. */
const char *sysfilter_check_reason(const char *name);

/* Returns the number of a name in the table, −1 if the architecture has no such call. */
int sysfilter_number(uint32_t arch, const char *name);

#endif
