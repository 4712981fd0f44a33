/*
 * Compiles the table of system calls to BPF programs.
 *
 * There are two, because a filter is logged as a whole or not at all: one for real denials, which are violations, and
 * one for calls that programs try first and can do without (clone3 for each thread), which are not. Each allows what
 * the other one handles; the kernel runs both and takes the stricter result. If nothing is logged, a third program does
 * the work of both, because installing one costs half.
 *
 * All have the same structure. The architecture is checked first: another one (int 0x80) has other numbers, so it kills
 * the process. Then a binary search finds the *interval* of numbers with the same answer; x32 numbers and everything
 * newer than the table are the last interval. When a filter is installed, the kernel runs it for each existing number
 * to learn which ones are always allowed: there, a search of seven comparisons costs a fraction of a list, and
 * afterwards the kernel skips the filter for those numbers. Only calls with conditions on arguments are evaluated each
 * time.
 *
 * libseccomp provides the numbers. It does not generate the programs, because it does not merge neighbours to
 * intervals.
 */

#include "sandbox/sysfilter.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef F_SETDELEG
#define F_SETDELEG 1040
#endif
#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#define NAMESPACE_FLAGS \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define SET_ID_BITS (S_ISUID | S_ISGID)
#define CREATING_FLAGS (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define SOCKET_TYPE 0xf
#define ALL 0xffffffffu

#define CODE_MAX 1024
#define CHECKS_PER_CALL 8
#define NO_CALL 0xffffffffu /* the number of a call that a debugger has cancelled */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the lower half of an argument comes first");

enum condition_kind { CONDITION_NONE, CONDITION_BITS, CONDITION_IS, CONDITION_NOT };

struct condition {
	uint8_t kind, arg;
	uint32_t mask, value;
};

struct check {
	const char *name;
	enum sysfilter_action action;
	uint16_t errnum;
	const char *reason;
	struct condition when[SYSFILTER_CONDITIONS];
};

const struct sysfilter_set_info sysfilter_sets[SYSFILTER_SET_COUNT] = {
#define SYSCALL_SET(NAME, action, summary, names) \
	[SYSFILTER_SET_##NAME] = { #NAME, SYSFILTER_##action, summary, names },
#define SYSCALL_NEW(name, number)
#define SYSCALL_CHECK(name, action, errnum, ...)
#include "sandbox/syscall_sets.def"
#undef SYSCALL_SET
#undef SYSCALL_NEW
#undef SYSCALL_CHECK
};

static const struct {
	const char *name;
	int number;
} new_calls[] = {
#define SYSCALL_SET(NAME, action, summary, names)
#define SYSCALL_NEW(name, number) { name, number },
#define SYSCALL_CHECK(name, action, errnum, ...)
#include "sandbox/syscall_sets.def"
#undef SYSCALL_SET
#undef SYSCALL_NEW
#undef SYSCALL_CHECK
};

static const struct check checks[] = {
#define BITS(arg, mask)                                  \
	{                                                \
		CONDITION_BITS, arg, (uint32_t)(mask), 0 \
	}
#define IS(arg, mask, value)                                           \
	{                                                              \
		CONDITION_IS, arg, (uint32_t)(mask), (uint32_t)(value) \
	}
#define NOT(arg, mask, value)                                           \
	{                                                               \
		CONDITION_NOT, arg, (uint32_t)(mask), (uint32_t)(value) \
	}
#define SYSCALL_SET(NAME, action, summary, names)
#define SYSCALL_NEW(name, number)
#define SYSCALL_CHECK(name, action, errnum, summary, ...) \
	{ name, SYSFILTER_##action, errnum, "not for sandboxes: " summary, { __VA_ARGS__ } },
#include "sandbox/syscall_sets.def"
#undef SYSCALL_SET
#undef SYSCALL_NEW
#undef SYSCALL_CHECK
#undef BITS
#undef IS
#undef NOT
};

const char *sysfilter_check_reason(const char *name)
{
	const char *reason = NULL;
	for (size_t i = 0; i < countof(checks); i++) {
		if (checks[i].action != SYSFILTER_DENY || strcmp(checks[i].name, name) != 0)
			continue;
		/* The kernel does not report which of several conditions matched. */
		if (reason && strcmp(reason, checks[i].reason) != 0)
			return "not for sandboxes with these arguments";
		reason = checks[i].reason;
	}
	return reason;
}

int sysfilter_number(uint32_t arch, const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(arch, name);
	if (nr != __NR_SCMP_ERROR)
		return nr < 0 ? -1 : nr; /* below −1: calls of other architectures */
	for (size_t i = 0; i < countof(new_calls); i++) {
		if (strcmp(new_calls[i].name, name) == 0)
			return new_calls[i].number;
	}
	return -1;
}

/* ---- answers by number ---- */

struct answer {
	enum sysfilter_action action;
	uint8_t nchecks;
	uint8_t checks[CHECKS_PER_CALL]; /* of the current filter, in the table's order */
};

struct builder {
	uint32_t arch;
	enum sysfilter_action
		part; /* SYSFILTER_DENY or SYSFILTER_ABSENT: the program that is built; SYSFILTER_ALLOW: both */
	struct answer answers[SYSFILTER_NUMBERS];
	struct sock_filter code[CODE_MAX];
	size_t len;
};

static int read_set(struct builder *b, const struct sysfilter_set_info *set, struct err *e)
{
	for (const char *p = set->names; *p;) {
		char name[32];
		size_t n = strcspn(p, " ");
		if (n == 0 || n >= sizeof name)
			return err_set(e, ERR_INTERNAL, "a bad name in the set %s", set->name);
		memcpy(name, p, n);
		name[n] = 0;
		p += n + (p[n] == ' ');
		int nr = sysfilter_number(b->arch, name);
		if (nr >= SYSFILTER_NUMBERS)
			return err_set(e, ERR_INTERNAL, "the number of %s is too high", name);
		if (nr >= 0)
			b->answers[nr].action = set->action;
	}
	return 0;
}

/* Whether the current program is the one that gives this answer. */
static bool answers_with(const struct builder *b, enum sysfilter_action action)
{
	return action != SYSFILTER_ALLOW && (b->part == SYSFILTER_ALLOW || b->part == action);
}

static int read_table(struct builder *b, struct err *e)
{
	for (size_t nr = 0; nr < SYSFILTER_NUMBERS; nr++)
		b->answers[nr] = (struct answer){ .action = SYSFILTER_ABSENT };
	for (size_t i = 0; i < SYSFILTER_SET_COUNT; i++) {
		if (read_set(b, &sysfilter_sets[i], e) < 0)
			return -1;
	}
	for (size_t i = 0; i < countof(checks); i++) {
		int nr = sysfilter_number(b->arch, checks[i].name);
		if (nr < 0 || !answers_with(b, checks[i].action))
			continue;
		struct answer *a = &b->answers[nr];
		if (a->action != SYSFILTER_ALLOW || a->nchecks == CHECKS_PER_CALL)
			return err_set(e, ERR_INTERNAL, "checks of %s", checks[i].name);
		a->checks[a->nchecks++] = (uint8_t)i;
	}
	/* Calls that the other program denies are allowed here. */
	for (size_t nr = 0; nr < SYSFILTER_NUMBERS; nr++) {
		if (!answers_with(b, b->answers[nr].action))
			b->answers[nr].action = SYSFILTER_ALLOW;
	}
	return 0;
}

/* ---- writing the program ---- */

static size_t emit_instruction(struct builder *b, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	if (b->len < CODE_MAX)
		b->code[b->len] = (struct sock_filter){ code, jt, jf, k };
	return b->len++;
}

static void emit_return(struct builder *b, uint32_t value) { emit_instruction(b, BPF_RET | BPF_K, value, 0, 0); }

static void emit_errno(struct builder *b, uint16_t errnum) { emit_return(b, SECCOMP_RET_ERRNO | errnum); }

/*
 * One or two instructions; falls through if the condition is met, otherwise jumps to a target that emit_check fills in.
 */
static size_t emit_condition(struct builder *b, const struct condition *c, bool load)
{
	if (load) {
		emit_instruction(b, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, args[c->arg]), 0,
				 0);
		if (c->kind != CONDITION_BITS && c->mask != ALL)
			emit_instruction(b, BPF_ALU | BPF_AND | BPF_K, c->mask, 0, 0);
	}
	if (c->kind == CONDITION_BITS)
		return emit_instruction(b, BPF_JMP | BPF_JSET | BPF_K, c->mask, 0, 0);
	return emit_instruction(b, BPF_JMP | BPF_JEQ | BPF_K, c->value, 0, 0);
}

static void emit_check(struct builder *b, const struct check *c)
{
	size_t jumps[SYSFILTER_CONDITIONS], n = 0;
	for (; n < SYSFILTER_CONDITIONS && c->when[n].kind; n++) {
		const struct condition *now = &c->when[n], *before = n ? &c->when[n - 1] : NULL;
		/* The accumulator still has the argument, unless it was masked differently. BITS does not change it. */
		bool same = before && before->arg == now->arg && before->mask == now->mask &&
			    before->kind != CONDITION_BITS && now->kind != CONDITION_BITS;
		jumps[n] = emit_condition(b, now, !same);
	}
	emit_errno(b, c->errnum);
	for (size_t i = 0; i < n && b->len <= CODE_MAX; i++) {
		uint8_t off = (uint8_t)(b->len - jumps[i] - 1);
		if (c->when[i].kind == CONDITION_NOT)
			b->code[jumps[i]].jt = off;
		else
			b->code[jumps[i]].jf = off;
	}
}

static void emit_answer(struct builder *b, const struct answer *a)
{
	for (size_t i = 0; i < a->nchecks; i++)
		emit_check(b, &checks[a->checks[i]]);
	if (a->action == SYSFILTER_ALLOW)
		emit_return(b, SECCOMP_RET_ALLOW);
	else
		emit_errno(b, a->action == SYSFILTER_DENY ? EPERM : ENOSYS);
}

struct interval {
	uint32_t first;
	struct answer answer;
};

/* The number is in the accumulator. The lower half follows its comparison; the upper half is jumped to. */
static void emit_search(struct builder *b, const struct interval *iv, size_t n)
{
	if (n == 1) {
		emit_answer(b, &iv[0].answer);
		return;
	}
	size_t half = n / 2;
	size_t jump = emit_instruction(b, BPF_JMP | BPF_JGE | BPF_K, iv[half].first, 0, 0);
	emit_search(b, iv, half);
	size_t over = b->len - jump - 1;
	if (over > UINT8_MAX) { /* out of reach for a conditional jump: emit it again with a long one */
		b->len = jump;
		emit_instruction(b, BPF_JMP | BPF_JGE | BPF_K, iv[half].first, 0, 1);
		emit_instruction(b, BPF_JMP | BPF_JA, (uint32_t)over, 0, 0);
		emit_search(b, iv, half);
	} else if (b->len <= CODE_MAX) {
		b->code[jump].jt = (uint8_t)over;
	}
	emit_search(b, iv + half, n - half);
}

static bool answers_equal(const struct answer *x, const struct answer *y)
{
	return x->action == y->action && !x->nchecks && !y->nchecks;
}

static size_t find_intervals(const struct builder *b, struct interval *iv)
{
	size_t n = 0;
	for (uint32_t nr = 0; nr < SYSFILTER_NUMBERS; nr++) {
		if (nr == 0 || !answers_equal(&iv[n - 1].answer, &b->answers[nr]))
			iv[n++] = (struct interval){ nr, b->answers[nr] };
	}
	if (answers_with(b, SYSFILTER_ABSENT)) /* ends the previous interval, which would include this number */
		iv[n++] = (struct interval){ NO_CALL, { .action = SYSFILTER_ALLOW } };
	return n;
}

static int build_program(struct builder *b, enum sysfilter_action part, struct sysfilter_program *ret, struct err *e)
{
	mem_auto struct interval *iv = mem_zalloc(SYSFILTER_NUMBERS + 1, sizeof *iv);
	b->part = part;
	b->len = 0;
	if (read_table(b, e) < 0)
		return -1;
	emit_instruction(b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	emit_instruction(b, BPF_JMP | BPF_JEQ | BPF_K, b->arch, 1,
			 0); /* libseccomp uses the kernel's values for both */
	emit_return(b, SECCOMP_RET_KILL_PROCESS);
	emit_instruction(b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	emit_search(b, iv, find_intervals(b, iv));
	if (b->len > CODE_MAX)
		return err_set(e, ERR_INTERNAL, "%zu instructions are too many", b->len);
	*ret = (struct sysfilter_program){ mem_dup(b->code, b->len * sizeof b->code[0]), (unsigned short)b->len };
	return 0;
}

int sysfilter_build_for(struct sysfilter *f, uint32_t arch, struct err *e)
{
	struct sysfilter made = { 0 };
	mem_auto struct builder *b = mem_zalloc(1, sizeof *b);
	b->arch = arch;
	if (arch != SCMP_ARCH_X86_64 && arch != SCMP_ARCH_AARCH64)
		return err_set(e, ERR_UNAVAILABLE, "no system call filter for this architecture");
	if (build_program(b, SYSFILTER_DENY, &made.denied, e) < 0 ||
	    build_program(b, SYSFILTER_ABSENT, &made.absent, e) < 0 ||
	    build_program(b, SYSFILTER_ALLOW, &made.whole, e) < 0) {
		sysfilter_done(&made);
		return err_wrap(e, "build the system call filter");
	}
	*f = made;
	return 0;
}

int sysfilter_build(struct sysfilter *f, struct err *e)
{
	uint32_t action = SECCOMP_RET_ERRNO;
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
		return err_sys(e, errno, "the kernel has no system call filters");
	return sysfilter_build_for(f, seccomp_arch_native(), e);
}

void sysfilter_done(struct sysfilter *f)
{
	free(f->denied.code);
	free(f->absent.code);
	free(f->whole.code);
	*f = (struct sysfilter){ 0 };
}

static int install_program(const struct sysfilter_program *p, unsigned flags)
{
	struct sock_fprog prog = { .len = p->len, .filter = p->code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog) < 0 ? -1 : 0;
}

int sysfilter_install(const struct sysfilter *f, bool log)
{
	if (!log)
		return install_program(&f->whole, 0);
	if (install_program(&f->denied, SECCOMP_FILTER_FLAG_LOG) < 0)
		return -1;
	return install_program(&f->absent, 0);
}
