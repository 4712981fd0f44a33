/*
 * Facts about violations. The first of several equal violations is recorded immediately. The following ones are counted
 * and recorded together, at most once a second and before the end; each event has the exact number that it represents.
 * So a flood costs one event a second and the counts stay exact. After DIFFERENT_MAX different violations the others
 * share one row for each kind.
 *
 * Benign violations (violation_is_benign) are only counted, in the terminal event.
 *
 * The kernel reports an operation and an errno, not the mount or rule that caused it. The reason for people is derived
 * by comparing the path or address with the profile that the sandbox was built from, and the suggestion of options that
 * would have allowed the operation is derived from the reason. Neither has an effect on the sandbox.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "sandbox/violation.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>

#define DIFFERENT_MAX 64
#define AGAIN_NS 1000000000ull /* minimum interval between events about equal violations */
#define OPENING_MAX 8192u      /* size limit of the suggestion in a terminal event */
#define RESOLVER_PORT 53
#define UNCOMMITTED_NS 20000000ull /* retry interval while the start is not committed */

/* A violation and how many equal ones are not recorded yet. */
struct violation_row {
	struct violation *what;
	uint64_t untold;
};

struct process_violations {
	struct violation_row *rows;
	size_t count, room;
	uint64_t total, benign, hints;
	uint64_t tell_at_ns; /* when to record them; UINT64_MAX = all are recorded */
};

static struct process_violations *violations_of(struct process *p)
{
	if (!p->violations) {
		p->violations = mem_zalloc(1, sizeof *p->violations);
		p->violations->tell_at_ns = UINT64_MAX;
	}
	return p->violations;
}

void process_violations_free(struct process *p)
{
	struct process_violations *s = p->violations;

	for (size_t i = 0; s && i < s->count; i++)
		free(s->rows[i].what);
	if (s)
		free(s->rows);
	free(s);
	p->violations = NULL;
}

static struct violation_row *find_row(struct process_violations *s, const struct violation *v)
{
	for (size_t i = 0; i < s->count; i++)
		if (violation_same(s->rows[i].what, v))
			return &s->rows[i];
	return NULL;
}

static struct violation_row *add_row(struct process_violations *s, const struct violation *v)
{
	if (s->count == s->room) {
		s->room = s->room ? 2 * s->room : 4;
		s->rows = mem_realloc(s->rows, s->room * sizeof *s->rows);
	}
	s->rows[s->count] = (struct violation_row){ .what = violation_copy(v) };
	return &s->rows[s->count++];
}

/* The row of a kind that counts the violations beyond DIFFERENT_MAX. */
static struct violation_row *rest_row(struct process_violations *s, const struct violation *v)
{
	struct violation rest = {
		.kind = v->kind, .operation = "other", .source = v->source, .port = -1, .pid = v->pid
	};
	struct violation_row *r;

	memcpy(rest.comm, v->comm, sizeof rest.comm);
	r = find_row(s, &rest);
	return r ? r : add_row(s, &rest);
}

/* ---- the reason, derived from the sandbox's profile ---- */

size_t process_path_depth(const char *path, struct jval list)
{
	char root[PATH_MAX];
	size_t deepest = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		size_t n = jval_str(it.value, root, sizeof root);
		if (n <= deepest || n >= sizeof root)
			continue;
		if (n == 1 || (strncmp(path, root, n) == 0 && (!path[n] || path[n] == '/')))
			deepest = n;
	}
	return deepest;
}

/* Absolute and without "..", which only the kernel can resolve correctly (symbolic links). */
static bool is_plain(const char *path)
{
	for (const char *p = path; (p = strstr(p, "/..")); p += 3)
		if (!p[3] || p[3] == '/')
			return false;
	return path[0] == '/';
}

const char *process_violation_hidden(struct jval made, const char *path)
{
	const size_t by_policy = process_path_depth(path, jval_get(made, "hiddenByPolicy"));

	return by_policy && by_policy == process_path_depth(path, jval_get(made, "hidden")) ? VIOLATION_BY_POLICY
											    : "hidden";
}

bool process_violation_is_hidden(const char *reason)
{
	return strcmp(reason, "hidden") == 0 || strcmp(reason, VIOLATION_BY_POLICY) == 0;
}

/* The deepest entry that contains the path decides. If that is a write root, the sandbox is not the reason: the path
 * leads out of it, or the file belongs to another user. */
static const char *file_reason(struct jval made, const struct violation *v)
{
	size_t write = process_path_depth(v->path, jval_get(made, "writeRoots")),
	       read = process_path_depth(v->path, jval_get(made, "readRoots"));
	size_t hidden = process_path_depth(v->path, jval_get(made, "hidden")),
	       empty = process_path_depth(v->path, jval_get(made, "private"));
	size_t shut = process_path_depth(v->path, jval_get(made, "protected")), open = write > empty ? write : empty;
	bool reads = strcmp(v->operation, "read") == 0 || strcmp(v->operation, "execute") == 0;

	if (hidden > open && hidden > read)
		return process_violation_hidden(made, v->path);
	if (reads)
		return "not permitted to its user";
	if (v->error == EBUSY || (shut && shut >= open && shut >= read))
		return "protected";
	if (!open || read > open)
		return "outside the write roots";
	return v->error == EROFS ? "leads out of the write roots" : "not permitted to its user";
}

static const char *network_reason(struct jval made, const struct violation *v)
{
	bool binds = strcmp(v->operation, "bind") == 0 && v->error == EACCES;

	if (binds && v->port > 0 && v->port < IPPORT_RESERVED)
		return "a port below 1024";
	if (v->error != ENETUNREACH && strcmp(v->operation, "lookup") != 0)
		return NULL;
	return jval_is_str(jval_get(made, "network"), "host")    ? "the host has no route there"
	       : jval_is_str(jval_get(made, "network"), "allow") ? "only through the proxy"
								 : "no network";
}

const char *process_violation_reason(const struct process *p, const struct violation *v)
{
	bool confined = p->plan_kind & PLAN_PRIVATE_ROOT;

	if (v->reason)
		return v->reason;
	if (strcmp(v->source, "seccomp") == 0)
		return "not for sandboxes";
	if (!p->sandbox_json)
		return NULL; /* adopted from an earlier runtime: the profile is not known */
	struct jval made = jval_of(p->sandbox_json, strlen(p->sandbox_json));
	if (strcmp(v->kind, "network") == 0)
		return network_reason(made, v);
	if (!confined)
		return "not permitted to its user";
	if (strcmp(v->kind, "filesystem") != 0)
		return strcmp(v->kind, "syscall") == 0 ? "not for sandboxes" : NULL;
	return is_plain(v->path) ? file_reason(made, v) : v->error == EROFS ? "read-only there" : NULL;
}

/* ---- suggestions ---- */

/* The smallest set of options that allows the blocked operations: no path in it is below another one. */
struct opening {
	struct open_one {
		char what[PATH_MAX];
		bool write;
	} * paths;
	size_t npaths;
	char hosts[DIFFERENT_MAX][300];
	size_t nhosts;
};

static bool covers_path(const struct open_one *a, const struct open_one *b)
{
	size_t n = strlen(a->what);

	return (a->write || !b->write) && strncmp(a->what, b->what, n) == 0 && (!b->what[n] || b->what[n] == '/');
}

/* Keeps the set minimal: drops a path that another one includes, and those that the new one includes. */
static void open_path(struct opening *o, const struct open_one *one)
{
	size_t kept = 0;

	for (size_t i = 0; i < o->npaths; i++)
		if (covers_path(&o->paths[i], one))
			return;
	for (size_t i = 0; i < o->npaths; i++) {
		if (covers_path(one, &o->paths[i]))
			continue;
		if (kept < i)
			o->paths[kept] = o->paths[i];
		kept++;
	}
	o->paths[kept] = *one;
	o->npaths = kept + 1;
}

static void open_host(struct opening *o, const struct violation *v)
{
	char what[sizeof o->hosts[0]];
	const char *host = v->host[0] ? v->host : v->address;
	/* An IPv6 address needs brackets in front of the port. */
	bool six = !v->host[0] && strchr(host, ':');

	snprintf(what, sizeof what, v->port > 0 ? "%s%s%s:%d" : "%s%s%s", six ? "[" : "", host, six ? "]" : "",
		 v->port);
	for (size_t i = 0; i < o->nhosts; i++)
		if (strcmp(o->hosts[i], what) == 0)
			return;
	if (o->nhosts < DIFFERENT_MAX)
		memcpy(o->hosts[o->nhosts++], what, sizeof what);
}

/* To create, remove or rename a name, its directory must be writable. */
static void open_folder(const struct violation *v, struct open_one *one)
{
	char *slash = strrchr(one->what, '/');

	if (!v->directory && strcmp(v->operation, "write") != 0 && strcmp(v->operation, "metadata") != 0 &&
	    slash > one->what)
		*slash = '\0';
}

/* Adds the option for a violation that an option of the sandbox can allow. Protected paths, denied hosts and files of
 * other users have none. */
static void open_for(const struct process *p, const struct violation *v, struct opening *o)
{
	const char *why = process_violation_reason(p, v);
	struct open_one one;

	if (!why)
		return;
	/* A host that no rule names, or a connection attempt without a network. Resolvers are left out: they are not
	 * reached through the proxy. */
	bool unnamed = v->host[0] && strcmp(why, "not in the allowed hosts") == 0;
	bool unconnected = (v->host[0] || (v->address[0] && v->port > 0 && v->port != RESOLVER_PORT)) &&
			   strcmp(why, "no network") == 0;
	if (strcmp(v->kind, "network") == 0 && (unnamed || unconnected)) {
		open_host(o, v);
	} else if (strcmp(v->kind, "filesystem") == 0 && v->path[0] == '/' && v->path[1]) {
		bool hidden = strcmp(why, "hidden") == 0,
		     reads = strcmp(v->operation, "read") == 0 || strcmp(v->operation, "execute") == 0;
		one.write = strcmp(why, "outside the write roots") == 0 || (hidden && !reads) ||
			    strcmp(why, PROCESS_REASON_GIT_LEFT_OUT) == 0;
		snprintf(one.what, sizeof one.what, "%s", v->path);
		if (one.write)
			open_folder(v, &one);
		if (one.write || hidden)
			open_path(o, &one);
	}
}

static void paths_json(const struct opening *o, const char *key, bool write, struct jw *w)
{
	jw_karr(w, key);
	for (size_t i = 0; i < o->npaths; i++)
		if (o->paths[i].write == write)
			jw_str(w, o->paths[i].what);
	jw_arr_end(w);
}

bool process_violations_open(const struct process *p, struct buf *out)
{
	const struct process_violations *s = p->violations;
	struct opening *o;
	struct jw w = jw_on(out);

	if (!s)
		return false;
	o = mem_zalloc(1, sizeof *o);
	o->paths = mem_zalloc(s->count + 1, sizeof *o->paths);
	for (size_t i = 0; i < s->count; i++)
		open_for(p, s->rows[i].what, o);
	bool any = o->npaths || o->nhosts;
	if (any) {
		jw_obj(&w);
		paths_json(o, "writeRoots", true, &w);
		paths_json(o, "readRoots", false, &w);
		jw_karr(&w, "allowHosts");
		for (size_t i = 0; i < o->nhosts; i++)
			jw_str(&w, o->hosts[i]);
		jw_arr_end(&w);
		jw_obj_end(&w);
	}
	free(o->paths);
	free(o);
	return any;
}

static void row_fact(struct process *p, struct violation_row *r, struct transaction *tx)
{
	const struct violation *v = r->what;
	bool has_path = v->path[0] || v->directory;

	EMIT(sandbox_violation, tx, process_scope(p), .kind = v->kind, .operation = v->operation,
	     .path = none_if_empty(v->path),
	     .pathIs = !has_path      ? NULL
		       : v->directory ? "directory"
				      : "entry",
	     .host = none_if_empty(v->host), .address = none_if_empty(v->address),
	     .port = opt_int_if(v->port >= 0, v->port), .syscall = none_if_empty(v->syscall),
	     .reason = process_violation_reason(p, v), .errnoName = v->error > 0 ? strerrorname_np(v->error) : NULL,
	     .pid = opt_int_if(v->pid, v->pid), .comm = v->pid ? v->comm : NULL, .source = v->source,
	     .confidence = v->hint ? "hint" : "exact", .evidence = v->evidence, .count = r->untold);
	r->untold = 0;
}

int process_violations_flush(struct process *p, struct transaction *tx)
{
	struct process_violations *s = p->violations;
	int added = 0;

	for (size_t i = 0; s && i < s->count; i++)
		if (s->rows[i].untold) {
			row_fact(p, &s->rows[i], tx);
			added++;
		}
	if (s)
		s->tell_at_ns = UINT64_MAX;
	return added;
}

uint64_t process_violations_tick(struct process *p, uint64_t now)
{
	struct process_violations *s = p->violations;

	if (!s || p->state == PROCESS_ENDING)
		return UINT64_MAX;
	if (now >= s->tell_at_ns) {
		struct transaction *tx = p->committed ? transaction_new_internal(p->engine) : NULL;

		if (!tx)
			s->tell_at_ns = now + UNCOMMITTED_NS; /* no fact of a process precedes its start */
		else if (process_violations_flush(p, tx) > 0)
			transaction_commit(tx);
		else
			transaction_free(tx);
	}
	return s->tell_at_ns;
}

void process_violations_members(const struct process *p, struct jw *w)
{
	const struct process_violations *s = p->violations;

	uint64_t total = p->violations_before + (s ? s->total : 0);
	/* Counts that an earlier runtime had not recorded are lost, so the total is a minimum. */
	bool least = p->violations_before || p->violations_missed;

	if (total || least)
		jw_kuint(w, "violationCount", total);
	if (least)
		jw_kbool(w, "violationCountIsLeast", true);
	if (s && s->hints)
		jw_kuint(w, "violationHints", s->hints);
	if (s && s->benign)
		jw_kuint(w, "benignRefusals", s->benign);
	/* Left out if it is too long: a part of the options would not be enough for the command to succeed. */
	buf_auto struct buf open = BUF_INIT;
	if (process_violations_open(p, &open) && open.len <= OPENING_MAX)
		jw_kraw(w, "wouldOpen", open.data, open.len);
}

void engine_on_violation(struct engine *engine, const char *id, const struct violation *v)
{
	struct process *p = engine_process(engine, id);

	/* Violations of the init itself are part of building the sandbox. */
	if (!p || p->state == PROCESS_ENDING || (v->pid && v->pid == p->pid))
		return;
	struct process_violations *s = violations_of(p);
	uint64_t n = v->count ? v->count : 1;
	if (violation_is_benign(v)) {
		s->benign += n;
		return;
	}
	struct violation_row *r = find_row(s, v);
	bool fresh = !r;
	if (!r)
		r = s->count < DIFFERENT_MAX ? add_row(s, v) : rest_row(s, v);
	s->total += n;
	r->untold += n;
	uint64_t at = engine_now(engine) + (fresh && s->count <= DIFFERENT_MAX ? 0 : AGAIN_NS);
	if (fresh && s->count <= DIFFERENT_MAX && p->committed) {
		struct transaction *tx = transaction_new_internal(engine);
		row_fact(p, r, tx);
		transaction_commit(tx);
	} else if (at < s->tell_at_ns) {
		s->tell_at_ns = at;
		engine_wake(engine, at);
	}
}

bool process_violations_any(const struct process *p, const char *kind)
{
	const struct process_violations *s = p->violations;

	for (size_t i = 0; s && i < s->count; i++)
		if (strcmp(s->rows[i].what->kind, kind) == 0)
			return true;
	return false;
}

bool process_violations_guessed(const struct process *p) { return p->violations && p->violations->hints; }

void process_violation_hint(struct process *p, const struct violation *v, struct transaction *tx)
{
	struct process_violations *s = violations_of(p);

	/* An exact report of the same operation makes the guess superfluous. */
	if (violation_is_benign(v) || find_row(s, v) || s->count >= DIFFERENT_MAX)
		return;
	struct violation_row *r = add_row(s, v);
	r->untold = 1;
	s->hints++;
	row_fact(p, r, tx);
	/* It points into the output buffer of the caller. */
	r->what->evidence = NULL;
}

void engine_on_violations_missed(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);

	if (p)
		p->violations_missed = true;
}

void engine_on_reports_complete(struct engine *engine, const char *id)
{
	struct process *p = engine_process(engine, id);

	if (!p)
		return;
	p->settling = false;
	process_event(p, PROCESS_EV_STREAM_END);
}
