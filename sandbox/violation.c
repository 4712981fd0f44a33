#include "sandbox/violation.h"

#include "runtime/base/mem.h"
#include "sandbox/audit.h"
#include "sandbox/sysfilter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define OPEN_MAX_EVENTS 512 /* denials with incomplete records */
#define SYSCALLS_MAX 1024
#define RANK_SOCKET 9 /* a path from an address has priority over all others */

const struct violation_kind violation_kinds[] = {
#define VIOLATION_KIND(name, kind, operation, flags, dir) { name, VIOLATION_##kind, operation, flags, dir },
#include "sandbox/violation_kinds.def"
#undef VIOLATION_KIND
};
const size_t violation_kind_count = countof(violation_kinds);

unsigned violation_kind_classes(const struct violation_kind *r)
{
	bool moves = strcmp(r->operation, "rename") == 0 || strcmp(r->operation, "delete") == 0;
	return 1u << r->kind | (moves ? 1u << VIOLATION_MOVE : 0);
}

/* A denial whose records are still arriving. */
struct pending {
	uint64_t serial; /* 0 = unused */
	uint64_t age;
	bool has_syscall, landlock;
	const struct violation_kind *row; /* NULL = a system call without a row */
	uint64_t args[4];
	char cwd[PATH_MAX];
	int rank;                /* how well `v.path` matches so far */
	struct dirfd_path meant; /* identity of `v.path` if it is relative to a descriptor */
	struct violation v;
};

struct violation_builder {
	struct pending *open[OPEN_MAX_EVENTS];
	struct pending *last; /* most records follow one of the same event */
	uint64_t age;
	const struct violation_kind *by_number[SYSCALLS_MAX]; /* for this architecture */
	uint32_t arch;
	dirfd_path_is_fn *is_folder;
	struct dirfd_path known; /* the last lookup: what, from where, and its result */
	char known_cwd[PATH_MAX], known_entry[PATH_MAX], known_path[PATH_MAX];
	struct violation out;
};

struct violation_builder *violation_builder_new(void)
{
	struct violation_builder *b = mem_zalloc(1, sizeof *b);
	b->arch = seccomp_arch_native();
	for (size_t i = 0; i < violation_kind_count; i++) {
		int nr = sysfilter_number(seccomp_arch_native(), violation_kinds[i].syscall);
		if (nr >= 0 && nr < SYSCALLS_MAX)
			b->by_number[nr] = &violation_kinds[i];
	}
	return b;
}

void violation_builder_set_resolver(struct violation_builder *b, dirfd_path_is_fn *is) { b->is_folder = is; }

void violation_builder_free(struct violation_builder *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < OPEN_MAX_EVENTS; i++)
		free(b->open[i]);
	free(b);
}

/* ---- a record's text: name=value, separated by spaces; values are plain, "quoted", or hexadecimal bytes ---- */

struct text {
	const char *p, *end;
};

/* Finds the value of the first `name=` at the beginning of a word. */
static bool find_member(struct text t, const char *name, struct text *ret)
{
	size_t n = strlen(name);
	for (const char *p = t.p; (size_t)(t.end - p) > n;) {
		if (memcmp(p, name, n) == 0 && p[n] == '=') {
			const char *from = p + n + 1, *to = from;
			if (to < t.end && *to == '"') {
				to = memchr(from + 1, '"', (size_t)(t.end - from - 1));
				to = to ? to + 1 : t.end;
			} else {
				while (to < t.end && *to != ' ' && *to != '\n' && *to)
					to++;
			}
			*ret = (struct text){ from, to };
			return true;
		}
		const char *space = memchr(p, ' ', (size_t)(t.end - p));
		if (!space)
			break;
		p = space + 1;
	}
	return false;
}

static uint64_t parse_number(struct text t, const char *name, int base, uint64_t otherwise)
{
	struct text v;
	char digits[24];
	if (!find_member(t, name, &v) || v.p == v.end || (size_t)(v.end - v.p) >= sizeof digits)
		return otherwise;
	memcpy(digits, v.p, (size_t)(v.end - v.p));
	digits[v.end - v.p] = 0;
	char *end;
	uint64_t n = strtoull(digits, &end, base); /* "-13" wraps, and is converted back to int */
	return end == digits ? otherwise : n;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes a hexadecimal value; returns the number of bytes, or −1. */
static ssize_t hex_bytes(struct text v, void *out, size_t cap)
{
	size_t n = (size_t)(v.end - v.p) / 2;
	if ((v.end - v.p) % 2 || n > cap)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int hi = hex_digit(v.p[2 * i]), lo = hex_digit(v.p[2 * i + 1]);
		if (hi < 0 || lo < 0)
			return -1;
		((unsigned char *)out)[i] = (unsigned char)(hi << 4 | lo);
	}
	return (ssize_t)n;
}

/* Decodes a name and NUL-terminates it; false if there is none ("(null)") or it does not fit. */
static bool name_of(struct text t, const char *field, char *out, size_t cap)
{
	struct text v;
	if (!find_member(t, field, &v) || v.p == v.end || *v.p == '(')
		return false;
	if (*v.p == '"') {
		size_t n = (size_t)(v.end - v.p) - 1;
		if (n > 0 && v.end[-1] == '"')
			n--;
		if (n >= cap)
			return false;
		memcpy(out, v.p + 1, n);
		out[n] = 0;
		return true;
	}
	ssize_t n = hex_bytes(v, out, cap - 1);
	if (n < 0)
		return false;
	out[n] = 0;
	return true;
}

/* "audit(1794712292.031:12): …" */
static uint64_t serial_of(const char **p, const char *end)
{
	const char *colon = memchr(*p, ':', (size_t)(end - *p));
	uint64_t n = 0;
	if (!colon)
		return 0;
	for (colon++; colon < end && *colon >= '0' && *colon <= '9' && n < UINT64_MAX / 16; colon++)
		n = n * 10 + (uint64_t)(*colon - '0');
	while (colon < end && (*colon == ')' || *colon == ':' || *colon == ' '))
		colon++;
	*p = colon;
	return n;
}

/* ---- paths ---- */

/* Removes "//", "/./" and a trailing slash; keeps "..": only the kernel knows its target. */
static void clean_path(char *path)
{
	char *to = path;
	for (const char *from = path; *from;) {
		if (from[0] == '/' && from[1] == '/') {
			from++;
		} else if (from[0] == '/' && from[1] == '.' && (from[2] == '/' || !from[2])) {
			from += 2;
		} else {
			*to++ = *from++;
		}
	}
	if (to > path + 1 && to[-1] == '/')
		to--;
	if (to == path && path[0] == '/')
		*to++ = '/';
	*to = 0;
}

/* A relative name starts at the working directory, unless the call had a directory descriptor. */
static bool begins_at_cwd(const struct pending *e)
{
	int arg = e->row ? e->row->dir_arg : -1;
	return arg < 0 || (int32_t)e->args[arg] == AT_FDCWD;
}

/* The kernel reports the working directory without links, so leading ".." can be resolved from there. */
static size_t climb_up(const char *cwd, const char **name)
{
	size_t at = strlen(cwd);
	for (;;) {
		const char *p = *name;
		p += strspn(p, "/");
		if (p[0] == '.' && (p[1] == '/' || !p[1])) {
			*name = p + 1;
		} else if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || !p[2])) {
			*name = p + 2;
			while (at > 0 && cwd[--at] != '/')
				;
		} else {
			*name = p;
			return at;
		}
	}
}

static void path_set(struct pending *e, const char *name, bool directory)
{
	bool at_cwd = name[0] != '/' && e->cwd[0] && begins_at_cwd(e);
	if (name[0] != '/' && e->v.path[0] == '/' && !begins_at_cwd(e))
		return; /* Landlock has already reported it */
	size_t at = at_cwd ? climb_up(e->cwd, &name) : 0, n = strlen(name);
	if (at + n + 2 > sizeof e->v.path)
		return;
	memcpy(e->v.path, e->cwd, at);
	if (at_cwd)
		e->v.path[at++] = '/';
	memcpy(e->v.path + at, name, n + 1);
	clean_path(e->v.path);
	e->v.directory = directory;
}

/*
 * Ranks a call's paths by how likely each is the denied one. The entry to create or delete is named if the kernel got
 * as far as looking it up (CREATE, DELETE); else its directory is (PARENT); a path that could not be looked up is
 * UNKNOWN. A symlink's target is UNKNOWN, too, so it has the lowest rank there.
 */
static int path_rank(const struct pending *e, struct text type)
{
	static const struct {
		const char *type;
		int make, take, other;
	} ranks[] = {
		{ "CREATE", 5, 2, 4 }, { "DELETE", 1, 5, 3 },  { "PARENT", 4, 4, 1 },
		{ "NORMAL", 3, 3, 5 }, { "UNKNOWN", 2, 1, 2 },
	};
	const char *op = e->row ? e->row->operation : "";
	bool make = strcmp(op, "create") == 0, take = strcmp(op, "delete") == 0 || strcmp(op, "rename") == 0;
	for (size_t i = 0; i < countof(ranks); i++) {
		if ((size_t)(type.end - type.p) == strlen(ranks[i].type) &&
		    memcmp(type.p, ranks[i].type, (size_t)(type.end - type.p)) == 0)
			return make ? ranks[i].make : take ? ranks[i].take : ranks[i].other;
	}
	return 0;
}

/*
 * For a directory that is given only by a descriptor, as in `rm -r`, the kernel reports the working directory instead.
 * A directory that was named ends in a slash.
 */
static bool stands_in(const struct pending *e, const char *name, bool directory)
{
	return directory && !begins_at_cwd(e) && strcmp(name, e->cwd) == 0;
}

/* "inode=19 dev=fe:00" */
static void parse_inode(struct pending *e, struct text t)
{
	struct text dev;
	unsigned major, minor;
	char text[24];
	if (!find_member(t, "dev", &dev) || (size_t)(dev.end - dev.p) >= sizeof text)
		return;
	memcpy(text, dev.p, (size_t)(dev.end - dev.p));
	text[dev.end - dev.p] = 0;
	if (sscanf(text, "%x:%x", &major, &minor) != 2)
		return;
	e->meant.inode = parse_number(t, "inode", 10, 0);
	e->meant.major = major;
	e->meant.minor = minor;
}

static void parse_path(struct pending *e, struct text t)
{
	char name[PATH_MAX];
	struct text type;
	if (!find_member(t, "nametype", &type) || !name_of(t, "name", name, sizeof name) || !name[0])
		return;
	bool directory = type.p < type.end && *type.p == 'P';
	int rank = path_rank(e, type);
	if (rank <= e->rank)
		return;
	e->rank = rank;
	parse_inode(e, t);
	if (!stands_in(e, name, directory)) {
		path_set(e, name, directory);
	} else if (e->v.path[0] != '/') {
		e->v.path[0] = 0;
		e->v.directory = true;
	}
}

/* The caller's command line, as far as the kernel records it; a single word is quoted and not useful. */
static void parse_title(struct pending *e, struct text t)
{
	struct text v;
	ssize_t n = find_member(t, "proctitle", &v) ? hex_bytes(v, e->meant.title, sizeof e->meant.title) : -1;
	e->meant.title_len = n > 0 ? (size_t)n : 0;
}

/*
 * Resolves a name relative to an open directory to an absolute path, if one of the words names that directory. The last
 * result is cached, since denials in one directory often follow each other.
 */
static void find_open(struct violation_builder *b, struct pending *e)
{
	struct violation *v = &e->v;
	if (v->path[0] == '/' || begins_at_cwd(e) || !b->is_folder)
		return;
	if (memcmp(&b->known, &e->meant, sizeof b->known) != 0 || strcmp(b->known_cwd, e->cwd) != 0 ||
	    strcmp(b->known_entry, v->path) != 0) {
		b->known = e->meant;
		memcpy(b->known_cwd, e->cwd, strlen(e->cwd) + 1);
		memcpy(b->known_entry, v->path, strlen(v->path) + 1);
		if (!dirfd_path_resolve(&e->meant, e->cwd, v->path, b->is_folder, b->known_path, sizeof b->known_path))
			b->known_path[0] = 0;
	}
	if (b->known_path[0]) {
		memcpy(v->path, b->known_path, strlen(b->known_path) + 1);
		clean_path(v->path);
	}
}

/* ---- addresses ---- */

static void parse_address(struct pending *e, struct text t)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
		char bytes[256];
	} a = { .bytes = { 0 } };
	struct text v;
	ssize_t n = find_member(t, "saddr", &v) ? hex_bytes(v, a.bytes, sizeof a.bytes - 1) : -1;
	if (n < (ssize_t)sizeof a.any.sa_family)
		return;
	if (a.any.sa_family == AF_INET && n >= 8) {
		inet_ntop(AF_INET, &a.in.sin_addr, e->v.address, sizeof e->v.address);
		e->v.port = ntohs(a.in.sin_port);
	} else if (a.any.sa_family == AF_INET6 && n >= 24) {
		inet_ntop(AF_INET6, &a.in6.sin6_addr, e->v.address, sizeof e->v.address);
		e->v.port = ntohs(a.in6.sin6_port);
	} else if (a.any.sa_family == AF_UNIX && n > 2) {
		bool abstract = !a.un.sun_path[0];
		char name[sizeof a.un.sun_path + 2];
		size_t len = (size_t)n - 2;
		snprintf(name, sizeof name, "%s%.*s", abstract ? "@" : "", (int)(len < 107 ? len : 107),
			 a.bytes + 2 + abstract);
		snprintf(e->v.path, sizeof e->v.path, "%s", name);
		e->rank = RANK_SOCKET;
	}
}

/* ---- records ---- */

static const char *const kind_names[] = {
	[VIOLATION_FILE] = "filesystem",
	[VIOLATION_NET] = "network",
	[VIOLATION_PRIVILEGE] = "syscall",
};

static void name_syscall(struct violation *v, uint32_t arch, int nr)
{
	char *name = seccomp_syscall_resolve_num_arch(arch, nr);
	if (name)
		snprintf(v->syscall, sizeof v->syscall, "%s", name);
	else
		snprintf(v->syscall, sizeof v->syscall, "%d", nr);
	free(name);
}

static void parse_task(struct violation *v, struct text t)
{
	v->pid = (int32_t)parse_number(t, "pid", 10, 0);
	v->parent = (int32_t)parse_number(t, "ppid", 10, 0);
	v->session = (uint32_t)parse_number(t, "ses", 10, AUDIT_NO_SESSION);
	if (parse_number(t, "auid", 10, 0) != AUDIT_LOGIN_UID)
		v->session = AUDIT_NO_SESSION;
	if (!name_of(t, "comm", v->comm, sizeof v->comm))
		v->comm[0] = 0;
}

static void parse_syscall(struct violation_builder *b, struct pending *e, struct text t)
{
	static const char *const args[] = { "a0", "a1", "a2", "a3" };
	uint32_t arch = (uint32_t)parse_number(t, "arch", 16, 0);
	uint64_t nr = parse_number(t, "syscall", 10, SYSCALLS_MAX);
	e->has_syscall = true;
	parse_task(&e->v, t);
	e->row = arch == b->arch && nr < SYSCALLS_MAX ? b->by_number[nr] : NULL;
	e->v.error = -(int)(int64_t)parse_number(t, "exit", 10, 0);
	for (size_t i = 0; i < countof(args); i++)
		e->args[i] = parse_number(t, args[i], 16, 0);
	if (e->row)
		snprintf(e->v.syscall, sizeof e->v.syscall, "%s", e->row->syscall);
	else
		name_syscall(&e->v, arch, (int)nr);
}

static bool starts_with(struct text t, const char *prefix)
{
	size_t n = strlen(prefix);
	return (size_t)(t.end - t.p) >= n && memcmp(t.p, prefix, n) == 0;
}

/* "domain=… blockers=fs.write_file path="/x" dev=…", "… blockers=net.connect_tcp daddr=… dest=80", "…
 * blockers=scope.signal opid=…" */
static void parse_landlock(struct pending *e, struct text t)
{
	static const struct {
		const char *prefix, *kind, *operation;
	} rows[] = {
		{ "fs.write", "filesystem", "write" },  { "fs.truncate", "filesystem", "write" },
		{ "fs.read", "filesystem", "read" },    { "fs.execute", "filesystem", "execute" },
		{ "fs.make", "filesystem", "create" },  { "fs.remove", "filesystem", "delete" },
		{ "fs.refer", "filesystem", "rename" }, { "fs.change_topology", "syscall", "mount" },
		{ "fs", "filesystem", "metadata" },     { "net.connect", "network", "connect" },
		{ "net.bind", "network", "bind" },      { "scope.signal", "syscall", "signal" },
		{ "scope", "network", "connect" },      { "ptrace", "syscall", "trace" },
	};
	struct text blockers;
	e->landlock = true;
	if (find_member(t, "blockers", &blockers)) {
		for (size_t i = 0; i < countof(rows); i++) {
			if (!starts_with(blockers, rows[i].prefix))
				continue;
			e->v.kind = rows[i].kind;
			e->v.operation = rows[i].operation;
			break;
		}
	}
	if (name_of(t, "path", e->v.path, sizeof e->v.path))
		e->v.directory = e->v.operation &&
				 (strcmp(e->v.operation, "create") == 0 || strcmp(e->v.operation, "delete") == 0 ||
				  strcmp(e->v.operation, "rename") == 0);
	if (parse_number(t, "dest", 10, 0))
		e->v.port = (int32_t)parse_number(t, "dest", 10, 0);
}

/* What open(2) would have done, by its flags and by what existed. */
static const char *open_operation(const struct pending *e)
{
	int arg = e->row->flags_arg;
	if (arg == -1)
		return e->v.directory ? "create" : "read";
	uint64_t flags = arg == VIOLATION_FLAGS_CREAT ? O_CREAT | O_WRONLY | O_TRUNC : e->args[arg];
	if ((flags & O_CREAT) && e->v.directory)
		return "create";
	return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) ? "write" : "read";
}

/* Returns false if it is not a denial that can be named. */
static bool finish_event(struct violation_builder *b, struct pending *e, struct violation *ret)
{
	struct violation *v = &e->v;
	if (!e->has_syscall || v->session == AUDIT_NO_SESSION)
		return false;
	find_open(b, e);
	v->source = e->landlock ? "landlock" : "audit";
	if (e->row && !(e->landlock && e->row->kind != VIOLATION_FILE && v->kind)) {
		v->kind = kind_names[e->row->kind];
		v->operation = strcmp(e->row->operation, "open") == 0 ? open_operation(e) : e->row->operation;
	}
	if (e->rank == RANK_SOCKET && v->path[0] != '/' && v->path[0] != '@') {
		char name[sizeof((struct sockaddr_un *)NULL)->sun_path + 2];
		snprintf(name, sizeof name, "%.*s", (int)sizeof name - 1, v->path);
		path_set(e, name, false);
	}
	if (!v->kind || !v->operation) {
		v->kind = "syscall";
		v->operation = "call";
	}
	if (strcmp(v->syscall, "unlinkat") == 0 && e->args[2] & AT_REMOVEDIR)
		memcpy(v->syscall, "rmdir", sizeof "rmdir");
	*ret = *v;
	return true;
}

/* Clears every member, but only the first byte of the path: it is a page long, and there can be millions of denials. */
static void violation_clear(struct violation *v)
{
	memset(v, 0, offsetof(struct violation, path) + 1);
	v->port = -1;
	v->session = AUDIT_NO_SESSION;
}

static struct pending *pending_of(struct violation_builder *b, uint64_t serial, bool make)
{
	struct pending *oldest = NULL;
	size_t slot = OPEN_MAX_EVENTS, oldest_slot = 0;
	if (b->last && b->last->serial == serial)
		return b->last;
	for (size_t i = 0; i < OPEN_MAX_EVENTS; i++) {
		struct pending *e = b->open[i];
		if (e && e->serial == serial)
			return b->last = e;
		if ((!e || !e->serial) && slot == OPEN_MAX_EVENTS)
			slot = i;
		if (e && (!oldest || e->age < oldest->age)) {
			oldest = e;
			oldest_slot = i;
		}
		if (!e)
			break; /* slots are filled from the front */
	}
	if (!make)
		return NULL;
	if (slot == OPEN_MAX_EVENTS)
		slot = oldest_slot; /* its end mark was lost: drop it */
	if (!b->open[slot])
		b->open[slot] = mem_alloc(sizeof(struct pending));
	struct pending *e = b->open[slot];
	e->serial = serial;
	e->age = ++b->age;
	e->has_syscall = e->landlock = false;
	e->row = NULL;
	e->cwd[0] = 0;
	e->rank = 0;
	e->meant = (struct dirfd_path){ 0 };
	violation_clear(&e->v);
	memset(e->args, 0, sizeof e->args);
	return b->last = e;
}

static bool parse_seccomp(struct violation_builder *b, struct text t)
{
	struct violation *v = &b->out;
	uint32_t arch = (uint32_t)parse_number(t, "arch", 16, 0);
	violation_clear(v);
	v->kind = "syscall";
	v->operation = "call";
	v->source = "seccomp";
	parse_task(v, t);
	name_syscall(v, arch, (int)parse_number(t, "syscall", 10, 0));
	/* The filter kills a process for any call of another architecture, whatever its arguments. */
	v->reason = arch == b->arch ? sysfilter_check_reason(v->syscall) : VIOLATION_OTHER_ARCH;
	return v->session != AUDIT_NO_SESSION;
}

/* Parses the digits after the first occurrence of `name`; false if there is none. */
static bool number_after(struct text t, const char *name, uint64_t *ret)
{
	size_t n = strlen(name);
	const char *at = memmem(t.p, (size_t)(t.end - t.p), name, n);
	if (!at)
		return false;
	*ret = 0;
	for (at += n; at < t.end && *at >= '0' && *at <= '9' && *ret < UINT64_MAX / 16; at++)
		*ret = *ret * 10 + (uint64_t)(*at - '0');
	return true;
}

static bool parse_mark(struct text t, struct violation_mark *ret)
{
	uint64_t lost;
	if (!number_after(t, "msg='" AUDIT_MARK, &ret->token))
		return false;
	ret->lost = number_after(t, AUDIT_MARK_LOST, &lost) ? (uint32_t)lost : 0;
	return true;
}

enum violation_step violation_builder_take(struct violation_builder *b, unsigned type, const char *text, size_t len,
					   const struct violation **ret, struct violation_mark *ret_mark)
{
	struct text t = { text, text + len };
	struct pending *e;
	uint64_t serial = serial_of(&t.p, t.end);
	if (!serial)
		return VIOLATION_NOTHING;
	switch (type) {
	case AUDIT_SYSCALL: parse_syscall(b, pending_of(b, serial, true), t); break;
	case AUDIT_LANDLOCK_ACCESS: parse_landlock(pending_of(b, serial, true), t); break;
	case AUDIT_CWD:
		if ((e = pending_of(b, serial, false)) && !name_of(t, "cwd", e->cwd, sizeof e->cwd))
			e->cwd[0] = 0;
		break;
	case AUDIT_PATH:
		if ((e = pending_of(b, serial, false)))
			parse_path(e, t);
		break;
	case AUDIT_PROCTITLE:
		if ((e = pending_of(b, serial, false)))
			parse_title(e, t);
		break;
	case AUDIT_SOCKADDR:
		if ((e = pending_of(b, serial, false)))
			parse_address(e, t);
		break;
	case AUDIT_EOE:
		if (!(e = pending_of(b, serial, false)))
			break;
		e->serial = 0;
		b->last = NULL;
		if (!finish_event(b, e, &b->out))
			break;
		*ret = &b->out;
		return VIOLATION_READY;
	case AUDIT_SECCOMP:
		if (!parse_seccomp(b, t))
			break;
		*ret = &b->out;
		return VIOLATION_READY;
	case AUDIT_MARK_TYPE: return parse_mark(t, ret_mark) ? VIOLATION_MARK : VIOLATION_NOTHING;
	default: break;
	}
	return VIOLATION_NOTHING;
}

/* ---- classification ---- */

struct violation *violation_copy(const struct violation *v)
{
	size_t n = offsetof(struct violation, path) + strlen(v->path) + 1;
	struct violation *copy = mem_alloc(n);
	memcpy(copy, v, n);
	return copy;
}

bool violation_same(const struct violation *a, const struct violation *b)
{
	return strcmp(a->kind, b->kind) == 0 && strcmp(a->operation, b->operation) == 0 && a->port == b->port &&
	       a->directory == b->directory && strcmp(a->path, b->path) == 0 && strcmp(a->address, b->address) == 0 &&
	       strcmp(a->host, b->host) == 0 && a->reason == b->reason && a->hint == b->hint &&
	       (strcmp(a->kind, "syscall") != 0 || strcmp(a->syscall, b->syscall) == 0);
}
