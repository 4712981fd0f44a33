/*
 * The rules of one daemon. Each has a key that names the daemon's guard by process id and start time, so that several
 * daemons and other programs' rules do not interfere, and the rules of a killed daemon can be distinguished from those
 * of a live one.
 *
 * Rules are appended: if another program's rule already reports a denial, the kernel uses that one with its key, and
 * the record is the same.
 */

#include "sandbox/audit_private.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/sysfilter.h"
#include "sandbox/violation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RULES_MAX 256 /* that are checked for a bailiff daemon's key */
#define KEY_PREFIX "bailiff-"
#define KEY_CAP 64

union rule {
	struct audit_rule_data data;
	char bytes[sizeof(struct audit_rule_data) + KEY_CAP];
};

/* ---- keys ---- */

/* Field 22 of /proc/PID/stat, in clock ticks since boot; 0 = no such process. */
static uint64_t start_time(pid_t pid)
{
	char path[40], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	const char *p = strrchr(text, ')'); /* the name can contain any character */
	for (int field = 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

static void own_key(char out[KEY_CAP])
{
	snprintf(out, KEY_CAP, KEY_PREFIX "%d-%" PRIu64, (int)getpid(), start_time(getpid()));
}

static bool key_is_alive(const char *key, pid_t *ret_pid)
{
	char *end;
	long pid = strtol(key + sizeof KEY_PREFIX - 1, &end, 10);
	if (pid <= 0 || *end != '-')
		return false;
	*ret_pid = (pid_t)pid;
	return start_time((pid_t)pid) == strtoull(end + 1, NULL, 10);
}

/* ---- one rule ---- */

static void rule_field(union rule *r, uint32_t field, uint32_t op, uint32_t value)
{
	struct audit_rule_data *d = &r->data;
	d->fields[d->field_count] = field;
	d->fieldflags[d->field_count] = op;
	d->values[d->field_count++] = value;
}

static void rule_key(union rule *r, const char *key)
{
	size_t n = strlen(key);
	rule_field(r, AUDIT_FILTERKEY, AUDIT_EQUAL, (uint32_t)n);
	memcpy(r->bytes + sizeof r->data, key, n);
	r->data.buflen = (uint32_t)n;
}

static size_t rule_size(const union rule *r) { return sizeof r->data + r->data.buflen; }

static int rule_add(int fd, union rule *r, uint32_t list, uint32_t action)
{
	char key[KEY_CAP];
	own_key(key);
	rule_key(r, key);
	r->data.flags = list;
	r->data.action = action;
	return audit_request(fd, AUDIT_ADD_RULE, r, rule_size(r)) < 0 && errno != EEXIST ? -1 : 0;
}

static bool has_login_uid(const union rule *r)
{
	for (uint32_t i = 0; i < r->data.field_count && i < AUDIT_MAX_FIELDS; i++) {
		if (r->data.fields[i] == AUDIT_LOGINUID && r->data.values[i] == AUDIT_LOGIN_UID)
			return true;
	}
	return false;
}

/* Returns the key of a rule of this or another bailiffd; "" = no key, as in versions before the key was introduced. */
static bool bailiff_key(const union rule *r, char out[KEY_CAP])
{
	out[0] = 0;
	if (!has_login_uid(r))
		return false;
	if (r->data.buflen >= KEY_CAP)
		return false;
	memcpy(out, r->bytes + sizeof r->data, r->data.buflen);
	out[r->data.buflen] = 0;
	return !out[0] || strncmp(out, KEY_PREFIX, sizeof KEY_PREFIX - 1) == 0;
}

/* ---- what is reported ---- */

#define KIND(k) (1u << VIOLATION_##k)

/* Which errors of which system calls are denials. EBUSY: an attempt to rename a protected path or a parent of one. */
static const struct {
	int error;
	unsigned kinds;
} violation_errors[] = {
	{ EACCES, KIND(FILE) | KIND(NET) | KIND(PRIVILEGE) },
	{ EPERM, KIND(FILE) | KIND(NET) | KIND(PRIVILEGE) },
	{ EROFS, KIND(FILE) | KIND(NET) }, /* also bind(2) to a path */
	{ EBUSY, KIND(MOVE) },
	{ ENETUNREACH, KIND(NET) },
};

static int add_exit_rules(int fd)
{
	for (size_t i = 0; i < countof(violation_errors); i++) {
		union rule r = { .bytes = { 0 } };
		for (size_t k = 0; k < violation_kind_count; k++) {
			int nr = sysfilter_number(seccomp_arch_native(), violation_kinds[k].syscall);
			if (nr < 0 || nr >= AUDIT_BITMASK_SIZE * 32 ||
			    !(violation_kind_classes(&violation_kinds[k]) & violation_errors[i].kinds))
				continue;
			r.data.mask[AUDIT_WORD(nr)] |= (uint32_t)AUDIT_BIT(nr);
		}
		/* The field that rarely matches comes first: a successful call costs one comparison. */
		rule_field(&r, AUDIT_EXIT, AUDIT_EQUAL, (uint32_t)-violation_errors[i].error);
		rule_field(&r, AUDIT_LOGINUID, AUDIT_EQUAL, AUDIT_LOGIN_UID);
		rule_field(&r, AUDIT_ARCH, AUDIT_EQUAL, seccomp_arch_native());
		if (rule_add(fd, &r, AUDIT_FILTER_EXIT, AUDIT_ALWAYS) < 0)
			return -1;
	}
	return 0;
}

/* Excludes records that no report needs. A kernel that rejects a login uid here sends them, and they are ignored. */
static void add_exclusions(int fd)
{
	static const uint32_t types[] = { AUDIT_BPRM_FCAPS, AUDIT_EXECVE };
	for (size_t i = 0; i < countof(types); i++) {
		union rule r = { .bytes = { 0 } };
		memset(r.data.mask, 0xff, sizeof r.data.mask);
		rule_field(&r, AUDIT_MSGTYPE, AUDIT_EQUAL, types[i]);
		rule_field(&r, AUDIT_LOGINUID, AUDIT_EQUAL, AUDIT_LOGIN_UID);
		(void)rule_add(fd, &r, AUDIT_FILTER_EXCLUDE, AUDIT_ALWAYS);
	}
}

/* Tasks outside of sandboxes get no audit context: they run as if audit were off. */
static int add_task_rule(int fd)
{
	union rule r = { .bytes = { 0 } };
	memset(r.data.mask, 0xff, sizeof r.data.mask);
	rule_field(&r, AUDIT_LOGINUID, AUDIT_NOT_EQUAL, AUDIT_LOGIN_UID);
	return rule_add(fd, &r, AUDIT_FILTER_TASK, AUDIT_NEVER);
}

int audit_rules_add(int fd, bool task_rule)
{
	add_exclusions(fd);
	return (task_rule && add_task_rule(fd) < 0) || add_exit_rules(fd) < 0 ? -1 : 0;
}

/* ---- all rules ---- */

struct rule_list {
	union rule rules[RULES_MAX]; /* of bailiff daemons */
	size_t count;
	bool foreign, never_task;
};

static int list_rules(int fd, struct rule_list *l)
{
	struct audit_message m;
	char key[KEY_CAP];
	if (audit_send(fd, AUDIT_LIST_RULES, 0, "", 0) < 0)
		return -1;
	for (;;) {
		ssize_t n = audit_receive(fd, &m);
		if (n < 0 || (m.head.nlmsg_type == NLMSG_ERROR && audit_error_of(&m, n) < 0))
			return -1;
		if (m.head.nlmsg_type == NLMSG_DONE)
			return 0;
		size_t len = (size_t)n - sizeof m.head;
		if (m.head.nlmsg_type != AUDIT_LIST_RULES || len < sizeof(struct audit_rule_data))
			continue;
		union rule r = { .bytes = { 0 } };
		memcpy(r.bytes, m.body, len < sizeof r.bytes ? len : sizeof r.bytes);
		if (bailiff_key(&r, key) && rule_size(&r) <= len) {
			if (l->count < RULES_MAX)
				l->rules[l->count++] = r;
		} else {
			l->foreign = true;
			l->never_task |= (r.data.flags & ~AUDIT_FILTER_PREPEND) == AUDIT_FILTER_TASK &&
					 r.data.action == AUDIT_NEVER;
		}
	}
}

static int rule_delete(int fd, const union rule *r)
{
	return audit_request(fd, AUDIT_DEL_RULE, r, rule_size(r)) < 0 && errno != ENOENT ? -1 : 0;
}

static bool is_task_rule(const union rule *r) { return r->data.flags == AUDIT_FILTER_TASK; }

static void read_rule(int fd, const union rule *r, pid_t owner, struct audit_rules_state *s)
{
	char key[KEY_CAP], own[KEY_CAP];
	pid_t pid = 0;
	own_key(own);
	bailiff_key(r, key);
	if (strcmp(key, own) == 0) {
		s->task_rule |= is_task_rule(r);
		s->exit_rules += r->data.flags == AUDIT_FILTER_EXIT;
		s->owner_is_bailiff |= owner == getpid();
	} else if (key[0] ? key_is_alive(key, &pid)
			  : owner && owner != getpid()) { /* without a key: its daemon was the recipient */
		s->other_daemons = true;
		s->others_task_rule |= is_task_rule(r);
		s->owner_is_bailiff |= owner && (owner == pid || !key[0]);
	} else {
		(void)rule_delete(fd, r);
		s->others_task_rule |= is_task_rule(r); /* audit was off before that daemon started */
	}
}

int audit_rules_read(int fd, pid_t owner, struct audit_rules_state *ret)
{
	struct rule_list *l = mem_zalloc(1, sizeof *l);
	int r = list_rules(fd, l);
	*ret = (struct audit_rules_state){ .foreign = l->foreign, .never_task = l->never_task };
	for (size_t i = 0; r == 0 && i < l->count; i++)
		read_rule(fd, &l->rules[i], owner, ret);
	free(l);
	return r;
}

bool audit_rules_complete(const struct audit_rules_state *s) { return s->exit_rules == countof(violation_errors); }

static int remove_own(int fd, bool only_task)
{
	struct rule_list *l = mem_zalloc(1, sizeof *l);
	char key[KEY_CAP], own[KEY_CAP];
	int r = list_rules(fd, l);
	own_key(own);
	for (size_t i = 0; r == 0 && i < l->count; i++) {
		bool ours = bailiff_key(&l->rules[i], key) && strcmp(key, own) == 0;
		if (ours && (!only_task || is_task_rule(&l->rules[i])))
			r = rule_delete(fd, &l->rules[i]);
	}
	free(l);
	return r;
}

int audit_rules_remove_task(int fd) { return remove_own(fd, true); }

int audit_rules_remove(int fd) { return remove_own(fd, false); }
