#ifndef BAILIFF_BASE_ERR_H
#define BAILIFF_BASE_ERR_H

/*
 * Errors as values.
 *
 * A function that can fail returns 0 on success and a negative number on failure, and fills the caller's
 * `struct err`, which lives on the caller's stack and never allocates. On the way up a caller adds what it was
 * trying to do (err_wrap); only the outermost caller logs or replies.
 *
 * The code decides the JSON-RPC error code (supervisor/control) and the exit status (supervisor/cli); `field`
 * names the invalid parameter, option or configuration key, if any. `reason` is for errors for which clients have
 * better advice than for others with their code: they must not read the message to find out.
 */

#include <stdbool.h>

enum err_code {
	ERR_NONE = 0,
	ERR_SYS,         /* a system call failed: see `sys` */
	ERR_INVALID,     /* bad input: `field` names it */
	ERR_NOT_ALLOWED, /* the peer's role or uid does not permit this */
	ERR_NOT_FOUND,
	ERR_CONFLICT,
	ERR_PERMISSION, /* policy denied it */
	ERR_UNAVAILABLE,
	ERR_EXHAUSTED, /* quota, disk, limit */
	ERR_EXPIRED,   /* removed by retention */
	ERR_SANDBOX,   /* the sandbox could not be built, or exec failed */
	ERR_STATE,     /* not possible in the current state */
	ERR_CORRUPT,   /* a checksum did not match */
	ERR_INTERNAL,
};

enum err_reason {
	REASON_NONE,
#define REASON(NAME, name, meaning, advice) REASON_##NAME,
#include "runtime/base/err_reasons.def"
	REASON_COUNT
};

#define ERR_FIELD_MAX 64
#define ERR_MESSAGE_MAX 448

struct err {
	enum err_code code;
	enum err_reason reason;
	int sys;
	char field[ERR_FIELD_MAX];
	char message[ERR_MESSAGE_MAX];
};

#define ERR_INIT ((struct err){ 0 })

/* All return -1, so that `return err_set(e, …)` reads well; `e` may be NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Bad input; `field` is the name that the caller used ("limits.wallMs", "--timeout"). */
int err_field(struct err *e, const char *field, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Another code with a field: an id that is not known, a value that conflicts. */
int err_at(struct err *e, enum err_code code, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* A parameter that names something which does not exist, or which the caller may not see. */
int err_not_known(struct err *e, const char *field, const char *id);
/* Another code with a reason. */
int err_because(struct err *e, enum err_code code, enum err_reason reason, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* "<message>: <strerror(errnum)>" with code ERR_SYS. */
int err_sys(struct err *e, int errnum, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Prepends "<message>: " to the message; everything else stays. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const char *err_code_name(enum err_code code);
/* NULL for REASON_NONE. */
const char *err_reason_name(enum err_reason reason);
/* Advice for programs that speak to the control socket; NULL for REASON_NONE. */
const char *err_reason_advice(enum err_reason reason);
/* REASON_NONE for names that are not known. */
enum err_reason err_reason_of(const char *name);

#endif
