#ifndef BAILIFF_SANDBOX_VIOLATION_H
#define BAILIFF_SANDBOX_VIOLATION_H

/*
 * What the kernel's audit records say of one refusal, put together. Pure: text in, struct out.
 *
 * A refusal comes as several records with one serial number: what was called (SYSCALL), from where (CWD), the paths
 * (PATH) or the address (SOCKADDR), what Landlock had against it, who called (PROCTITLE), and an end mark (EOE).
 * Records of different refusals come interleaved. seccomp's refusals are one record alone.
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
#define AUDIT_MARK_TYPE 1121 /* "freestyle text of a trusted program", which only CAP_AUDIT_WRITE can send */

/* ---- the table ---- */

enum violation_class { VIOLATION_FILE, VIOLATION_NET, VIOLATION_PRIVILEGE, VIOLATION_MOVE };

struct violation_kind {
	const char *syscall;
	enum violation_class kind;
	const char *operation;
	int flags_arg, dir_arg;
};
extern const struct violation_kind violation_kinds[];
extern const size_t violation_kind_count;
/* Bits 1u << kind; MOVE is FILE's that take a name away. */
unsigned violation_kind_classes(const struct violation_kind *r);

/* ---- one refusal ---- */

#define VIOLATION_ADDRESS_MAX 48

struct violation {
	const char *kind;      /* "filesystem", "network", "syscall" */
	const char *operation; /* "read", "write", "create", … */
	const char *source;    /* "audit", "landlock", "seccomp", "proxy", "resolver", "output" */
	const char *reason;    /* NULL = as the sandbox's make-up tells it */
	uint64_t count;        /* of equal ones; 0 = one */
	bool hint;             /* a guess: the command's output says so, and its sandbox would have refused it */
	bool directory;        /* the path is of the folder, not of the entry */
	char address[VIOLATION_ADDRESS_MAX]; /* "" = none */
	char host[256];                      /* as it was asked for; "" = none */
	int32_t port;                        /* −1 = none */
	char syscall[32];                    /* "" = not known */
	int error;                           /* errno; 0 = not known */
	int32_t pid;                         /* in the host's numbers */
	char comm[64];
	const char *evidence; /* of a hint: what was printed; valid while it is reported. NULL = none */
	uint32_t session;     /* AUDIT_NO_SESSION = not of a sandbox */
	char path[PATH_MAX];  /* "" = none; a relative one begins at an open folder whose name is not known */
};

/* On the heap, with no more room for the path than it needs: only to be read. */
struct violation *violation_copy(const struct violation *v);

/* What happens in an ordinary day: counted, not told one by one. The table in violation_benign.c says why each. */
bool violation_is_benign(const struct violation *v);
/* The same thing refused again. */
bool violation_same(const struct violation *a, const struct violation *b);

/* ---- from records to refusals ---- */

struct violation_builder;
struct violation_builder *violation_builder_new(void);
/* How it is seen which folder a path is: for what begins at an open one. Without, such a path stays relative, or there
 * is none. */
void violation_builder_set_resolver(struct violation_builder *b, dirfd_path_is_fn *is);
void violation_builder_free(struct violation_builder *b);

enum violation_step {
	VIOLATION_NOTHING, /* more is to come, or the record means nothing here */
	VIOLATION_READY,   /* *ret is a refusal, valid until the next call */
	VIOLATION_MARK,    /* *ret_mark: everything before the mark has come */
};
struct violation_mark {
	uint64_t token;
	uint32_t lost; /* records that the kernel could not keep since boot, when the mark was sent; 0 = none, or not
			  known */
};
/* Takes one record: its type, and the text behind the netlink header. */
enum violation_step violation_builder_take(struct violation_builder *b, unsigned type, const char *text, size_t len,
					   const struct violation **ret, struct violation_mark *ret_mark);

#endif
