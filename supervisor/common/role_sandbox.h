#ifndef BAILIFF_SUPERVISOR_COMMON_ROLE_SANDBOX_H
#define BAILIFF_SUPERVISOR_COMMON_ROLE_SANDBOX_H

/*
 * The sandbox of bailiff's own processes. Each of them parses input from clients, sandboxes or servers, so before it
 * serves it gives up everything that its role does not need: the system calls that role_calls.def does not list for it,
 * sockets of other families, and with Landlock every file outside of the paths given here. An attacker who takes over
 * such a process is left with its open descriptors and with messages that guard and spawner check.
 *
 * A denied system call returns EPERM (a socket of another family EAFNOSUPPORT) and is logged once per call. Landlock
 * denies with EACCES. On a kernel without Landlock the filter stands alone, which the process logs and doctor reports.
 * Sanitizer builds enter nothing: their run-time libraries trace and clone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

struct err;

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || \
	__has_feature(thread_sanitizer)
#define ROLE_SANDBOX_SANITIZED 1
#else
#define ROLE_SANDBOX_SANITIZED 0
#endif

enum role_sandbox {
	ROLE_SANDBOX_RUNTIME,
	ROLE_SANDBOX_PROXY,
	ROLE_SANDBOX_EXPORTER,
	ROLE_SANDBOX_WEBHOOK,
	ROLE_SANDBOX_MODEL,
	ROLE_SANDBOX_GATEWAY,
	ROLE_SANDBOX_FLEET,
	ROLE_SANDBOX_COUNT
};

enum role_sandbox_access {
	ROLE_SANDBOX_LIST,  /* open directories and list them */
	ROLE_SANDBOX_READ,  /* and read files */
	ROLE_SANDBOX_WRITE, /* and create, change, rename and remove them; never execute */
};

/* Everything below `path`, or below the directory `fd` where path is NULL. What does not exist (fd −1) is skipped. */
struct role_sandbox_path {
	enum role_sandbox_access access;
	const char *path;
	int fd;
};

/* Where OpenSSL looks for certificates, in addition to /etc; a variable that is not set is a path to skip. */
#define ROLE_SANDBOX_CERTIFICATES                                                      \
	{                                                                              \
		{ ROLE_SANDBOX_READ, "/usr/share/ca-certificates", -1 },               \
			{ ROLE_SANDBOX_READ, "/usr/local/share/ca-certificates", -1 }, \
			{ ROLE_SANDBOX_READ, "/usr/share/pki", -1 },                   \
			{ ROLE_SANDBOX_READ, "/var/lib/ca-certificates", -1 },         \
			{ ROLE_SANDBOX_READ, getenv("SSL_CERT_FILE"), -1 },            \
			{ ROLE_SANDBOX_READ, getenv("SSL_CERT_DIR"), -1 },             \
	}

/*
 * Enters the sandbox of a role, for good: this thread and those that it starts later. `own` are the paths of this
 * process, in addition to those that the C library reads for every role. Sets no_new_privs, installs a SIGSYS handler.
 */
int role_sandbox_enter(enum role_sandbox role, const struct role_sandbox_path *own, size_t n, struct err *e);

#endif
