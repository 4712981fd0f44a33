#ifndef BAILIFF_SANDBOX_VIOLATION_H
#define BAILIFF_SANDBOX_VIOLATION_H

/*
 * Builds violations from the kernel's audit records. Pure: text in, struct out.
 *
 * A denial consists of several records with one serial number: the call (SYSCALL), the working directory (CWD), the
 * paths (PATH) or the address (SOCKADDR), Landlock's reason, the command line (PROCTITLE), and an end mark (EOE).
 * Records of different denials are interleaved. A denial by seccomp is a single record.
 */

#include "sandbox/dirfd_path.h"

#include <limits.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef AUDIT_LANDLOCK_ACCESS
#define AUDIT_LANDLOCK_ACCESS 1423 /* since 6.15 */
#endif

#define AUDIT_MARK "bailiff-mark=" /* see audit_mark() */
#define AUDIT_MARK_LOST " lost="
#define AUDIT_MARK_TYPE 1121 /* "freestyle text of a trusted program"; sending it requires CAP_AUDIT_WRITE */

/* ---- the table ---- */

enum violation_class { VIOLATION_FILE, VIOLATION_NET, VIOLATION_PRIVILEGE, VIOLATION_MOVE };

#define VIOLATION_FLAGS_CREAT (-2) /* no argument: always O_CREAT | O_WRONLY | O_TRUNC */

struct violation_kind {
	const char *syscall;
	enum violation_class kind;
	const char *operation;
	int flags_arg, dir_arg; /* −1 = none */
};
extern const struct violation_kind violation_kinds[];
extern const size_t violation_kind_count;
/* Bits 1u << kind; MOVE is for FILE calls that remove a name. */
unsigned violation_kind_classes(const struct violation_kind *r);

/* ---- one denial ---- */

#define VIOLATION_ADDRESS_MAX 48
/* A reason: a placeholder of another sandbox stands there (placeholder.h). No option would help. */
#define VIOLATION_BY_POLICY "hidden by the policy"
#define VIOLATION_KEPT_MISSING "it does not exist, and a sandbox that is open keeps it from being created"
/* A reason: git was directed to a path that nobody should be advised to open. */
#define VIOLATION_GIT_ELSEWHERE "the workspace's .git file names it, but it is not named like a repository"
/* A reason: the process is a 32-bit program, or uses that entry to the kernel (int 0x80). It was killed. */
#define VIOLATION_OTHER_ARCH "not for sandboxes: 32-bit system calls"

struct violation {
	const char *kind;      /* "filesystem", "network", "syscall" */
	const char *operation; /* "read", "write", "create", … */
	const char *source;    /* "audit", "landlock", "seccomp", "proxy", "resolver", "output" */
	const char *reason;    /* NULL = derived from the sandbox's configuration */
	uint64_t count;        /* number of equal ones; 0 = one */
	bool hint;             /* a guess: the command's output reports it, and its sandbox would have denied it */
	bool directory;        /* the path is the directory's, not the entry's */
	char address[VIOLATION_ADDRESS_MAX]; /* "" = none */
	char host[256];                      /* as requested; "" = none */
	int32_t port;                        /* −1 = none */
	char syscall[32];                    /* "" = unknown */
	int error;                           /* errno; 0 = unknown */
	int32_t pid;                         /* in the host's pid namespace */
	int32_t parent;                      /* its parent; 0 = unknown. May outlive the process */
	char comm[64];
	const char *evidence; /* for a hint: the printed line; valid while it is reported. NULL = none */
	uint32_t session;     /* AUDIT_NO_SESSION = not in a sandbox */
	char path[PATH_MAX];  /* "" = none; a relative one starts at an open directory whose name is unknown */
};

/* Returns a heap copy, with only as much space for the path as it needs: read-only. */
struct violation *violation_copy(const struct violation *v);

/*
 * Denials that occur in normal operation: counted, not reported one by one. The table in violation_benign.c has the
 * reasons.
 */
bool violation_is_benign(const struct violation *v);
/* Whether the same operation was denied again. */
bool violation_same(const struct violation *a, const struct violation *b);

/* ---- from records to denials ---- */

struct violation_builder;
struct violation_builder *violation_builder_new(void);
/*
 * Sets the function that identifies a directory, for paths relative to an open one. Without it such a path stays
 * relative or is left out.
 */
void violation_builder_set_resolver(struct violation_builder *b, dirfd_path_is_fn *is);
void violation_builder_free(struct violation_builder *b);

enum violation_step {
	VIOLATION_NOTHING, /* more records follow, or the record is irrelevant */
	VIOLATION_READY,   /* *ret is a denial, valid until the next call */
	VIOLATION_MARK,    /* *ret_mark: everything before the mark has arrived */
};
struct violation_mark {
	uint64_t token;
	uint32_t
		lost; /* records that the kernel has dropped since boot, when the mark was sent; 0 = none, or unknown */
};
/* Processes one record: its type, and the text after the netlink header. */
enum violation_step violation_builder_take(struct violation_builder *b, unsigned type, const char *text, size_t len,
					   const struct violation **ret, struct violation_mark *ret_mark);

#endif
