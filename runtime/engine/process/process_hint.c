/*
 * Hints about violations, for daemons that cannot read the kernel's audit records: without root, or in a container.
 * When a command has failed, the end of its output is searched for error messages with a path or a host. Each is
 * compared with the sandbox's profile and reported only if this sandbox blocks the operation, with confidence "hint"
 * and the line of output. The command controls its output, so a hint grants nothing; it only suggests an option to a
 * person.
 *
 * The kernel cannot report some failures: a hidden path, which does not exist inside; a file in /tmp or a
 * server on localhost that an earlier command has left in its own sandbox; a git directory that is not accessible; and
 * a path that another sandbox keeps from being created. Hints about these come from every daemon.
 */

#include "runtime/engine/core/core.h"

#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/process/process.h"
#include "sandbox/output_hint.h"
#include "sandbox/violation.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* The error that made a command fail is usually among its last lines. Few hints, so that they are read. */
#define TAIL_BYTES 8192u
#define HINTS_MAX 5

struct guesses {
	struct process *process;
	struct transaction *tx;
	struct jval made; /* sandboxProfile */
	bool no_network;  /* no hints about the network: its violations are known exactly */
	bool exact;       /* nor about anything else that the kernel reports */
	unsigned count;
};

static bool command_failed(const struct process *p)
{
	return p->end == PROCESS_END_NONE && p->has_last && p->last.kind == STATUS_EXITED && p->last.wait_status != 0;
}

/* Makes the path absolute and removes "." and "..", without resolving symbolic links. */
static bool make_absolute(const struct process *p, const char *name, char out[PATH_MAX])
{
	char whole[PATH_MAX];
	size_t n = 0;

	int len = snprintf(whole, sizeof whole, "%s%s%s", name[0] == '/' ? "" : p->cwd, name[0] == '/' ? "" : "/",
			   name);
	if (len < 0 || (size_t)len >= sizeof whole || whole[0] != '/')
		return false;
	for (const char *from = whole; *from;) {
		from += strspn(from, "/");
		size_t part = strcspn(from, "/");
		if (part == 2 && from[0] == '.' && from[1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (part && !(part == 1 && from[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, from, part);
			n += part;
		}
		from += part;
	}
	out[n] = 0;
	return n > 0;
}

/* Whether the path exists outside the sandbox; −1 = unknown. */
static int host_sees(const struct guesses *g, const char *path)
{
	const struct engine *e = g->process->engine;

	return e->o.sees_path ? e->o.sees_path(path) : -1;
}

static int sees_folder(const struct guesses *g, const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');

	snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
	return folder[0] ? host_sees(g, folder) : 1;
}

static const char temporary[] = "[\"/tmp\",\"/var/tmp\",\"/dev/shm\"]";

/* The path exists outside but not inside the sandbox: it is below a hidden path, or a private directory covers it. */
static bool is_hidden(const struct guesses *g, const char *path, bool create)
{
	size_t write = process_path_depth(path, jval_get(g->made, "writeRoots")),
	       read = process_path_depth(path, jval_get(g->made, "readRoots"));
	size_t hidden = process_path_depth(path, jval_get(g->made, "hidden")),
	       own = process_path_depth(path, jval_get(g->made, "private"));
	size_t tmp = process_path_depth(path, jval_of(temporary, sizeof temporary - 1)),
	       shown = write > read ? write : read;
	size_t deepest = hidden > own ? hidden : own;

	if (deepest <= shown && tmp <= shown)
		return false;
	int seen = create ? sees_folder(g, path) : host_sees(g, path);
	return deepest > shown ? seen != 0
			       : seen > 0; /* in a private /tmp the path may also be a file of the command's own */
}

/* In a private /tmp that no other command sees. A relative name says little: the command may be at fault. */
static bool is_private_tmp(const struct guesses *g, const char *given, const char *path)
{
	size_t tmp = process_path_depth(path, jval_of(temporary, sizeof temporary - 1));

	return given[0] == '/' && tmp && path[tmp] && !g->process->within[0] &&
	       tmp > process_path_depth(path, jval_get(g->made, "writeRoots")) &&
	       tmp > process_path_depth(path, jval_get(g->made, "readRoots"));
}

/* Whether a path that the sandbox must not show is in the directory, or the directory in it; a home may be shown. */
static bool meets_any(const char *folder, struct jval paths)
{
	char path[PATH_MAX];

	for (struct jiter it = jiter_on(paths); jiter_next(&it);)
		if (jval_str(it.value, path, sizeof path) >= sizeof path || path_within(folder, path) ||
		    (path_within(path, folder) && strcmp(path, "/home") != 0 && strcmp(path, "/root") != 0))
			return true;
	return false;
}

/*
 * Whether a person may be advised to open it. A downloaded tree can name any directory in its .git file, so the advice
 * is given only for what is called like a repository (.git, NAME.git) and is not in a directory where programs keep
 * their own files (~/.ssh, ~/.config …) or where the sandbox hides or protects something.
 */
static bool is_named_like_repository(const struct guesses *g, const char *folder)
{
	char name[NAME_MAX + 1];
	bool found = false;

	for (const char *at = folder; *at == '/';) {
		if (path_step(&at, name) < 0)
			return false;
		const size_t n = strlen(name);
		if (name[0] == '.' && strcmp(name, ".git") != 0)
			return false;
		found |= n >= 4 && strcmp(name + n - 4, ".git") == 0;
	}
	return found && !path_within("/etc", folder) && !meets_any(folder, jval_get(g->made, "hidden")) &&
	       !meets_any(folder, jval_get(g->made, "protected"));
}

/* The git directory of the workspace, where it does not name the workspace (sandbox/git_link.h). */
static bool is_left_out(const struct guesses *g, struct violation *v)
{
	char folder[sizeof v->path];
	size_t n = jval_str(jval_get(g->made, "gitLeftOut"), folder, sizeof folder);

	if (!n || n >= sizeof folder || strncmp(v->path, folder, n) != 0 || (v->path[n] && v->path[n] != '/'))
		return false;
	memcpy(v->path, folder, n + 1);
	v->directory = true;
	v->operation = "write";
	v->reason = is_named_like_repository(g, folder) ? PROCESS_REASON_GIT_LEFT_OUT : VIOLATION_GIT_ELSEWHERE;
	return true;
}

/* The reason why the sandbox blocks this; NULL = it does not. */
static const char *file_reason(const struct guesses *g, const struct violation *v)
{
	const char *why;

	switch (v->error) {
	case EROFS:
	case EBUSY:
		why = process_violation_reason(g->process, v);
		return why && (strcmp(why, "outside the write roots") == 0 || strcmp(why, "protected") == 0) &&
				       (v->error == EROFS || why[0] == 'p')
			       ? why
			       : NULL;
	case EACCES:
	case EPERM:
	case ENOENT:
		return is_hidden(g, v->path, strcmp(v->operation, "create") == 0)
			       ? process_violation_hidden(g->made, v->path)
			       : NULL;
	default: return NULL;
	}
}

/* Whether something in the folder is protected, and not the folder itself. */
static bool has_protected(const struct guesses *g, const char *folder)
{
	const size_t n = strlen(folder);
	char path[PATH_MAX];

	for (struct jiter it = jiter_on(jval_get(g->made, "protected")); jiter_next(&it);)
		if (jval_str(it.value, path, sizeof path) < sizeof path && strncmp(path, folder, n) == 0 &&
		    path[n] == '/')
			return true;
	return false;
}

/*
 * A path in a write root that does not exist, and that another sandbox protects: as long as that one is open, what
 * stands there is read-only in every sandbox (supervisor/spawner/placeholder_helper.h). A daemon that cannot see it
 * concludes that from the profile: of a .git that exists, only some parts are read-only.
 */
static bool is_kept_missing(const struct guesses *g, struct violation *v)
{
	const size_t root = process_path_depth(v->path, jval_get(g->made, "writeRoots"));
	char *end = v->path + root;

	if (!root || v->error != EROFS)
		return false;
	while (*end) {
		end += 1 + strcspn(end + 1, "/");
		const char rest = *end;
		*end = 0;
		const int seen = host_sees(g, v->path);
		if (seen == 2 || (seen < 0 && has_protected(g, v->path))) {
			v->operation = "create";
			v->reason = VIOLATION_KEPT_MISSING;
			return true;
		}
		*end = rest;
	}
	return false;
}

/*
 * A file that a rule hides is an empty one on a read-only mount, and a hidden folder is read-only. No other path of the
 * message explains the error better: "busy: 'a' -> '.env'".
 */
static bool is_write_to_hidden(const struct guesses *g, const struct output_hint *h, struct violation *v)
{
	for (size_t i = 0; !g->exact && (v->error == EROFS || v->error == EBUSY) && i < h->npaths; i++) {
		if (!make_absolute(g->process, h->paths[i], v->path))
			continue;
		v->operation = h->operation;
		const char *why = process_violation_reason(g->process, v);
		if (why && strcmp(why, VIOLATION_BY_POLICY) == 0) {
			v->reason = why;
			return true;
		}
	}
	return false;
}

static bool guess_file(struct guesses *g, const struct output_hint *h, struct violation *v)
{
	if (is_write_to_hidden(g, h, v))
		return true;
	/* A message may name several paths. The first that the sandbox blocks explains it. */
	for (size_t i = 0; i < h->npaths; i++) {
		if (!make_absolute(g->process, h->paths[i], v->path))
			continue;
		if (is_left_out(g, v))
			return true;
		v->operation = h->operation;
		v->reason = file_reason(g, v);
		if (!v->reason && is_kept_missing(g, v))
			return true;
		if (g->exact && v->reason && !(v->error == ENOENT && process_violation_is_hidden(v->reason)))
			v->reason = NULL;
		if (!v->reason && v->error == ENOENT && is_private_tmp(g, h->paths[i], v->path)) {
			v->reason = "each command has a /tmp of its own";
			return true;
		}
		if (!v->reason)
			continue;
		if (process_violation_is_hidden(v->reason))
			v->operation = strcmp(v->operation, "create") == 0 ? "create" : "read";
		else if (strcmp(v->operation, "write") == 0 && host_sees(g, v->path) == 0)
			v->operation = "create";
		return true;
	}
	return false;
}

static bool guess_network(const struct guesses *g, const struct output_hint *h, struct violation *v)
{
	bool none = jval_is_str(jval_get(g->made, "network"), "none"),
	     allow = jval_is_str(jval_get(g->made, "network"), "allow");

	if (h->this_host) {
		v->reason = "each command has a loopback of its own";
		memcpy(v->host, h->host, sizeof v->host);
		v->port = h->port;
		return (none || allow) && !g->process->within[0] && (none || h->host[0]);
	}
	if (g->exact || g->no_network || !(none || (allow && strcmp(h->operation, "connect") == 0)))
		return false;
	memcpy(v->host, h->host, sizeof v->host);
	_Static_assert(sizeof v->address == sizeof h->address, "the same text");
	memcpy(v->address, h->address, sizeof v->address);
	v->port = h->port;
	v->reason = none ? "no network" : "only through the proxy";
	return true;
}

static void on_hint(void *ctx, const struct output_hint *h)
{
	struct guesses *g = ctx;
	struct violation v = { .kind = h->kind,
			       .operation = h->operation,
			       .source = "output",
			       .hint = true,
			       .error = h->error,
			       .evidence = h->line,
			       .port = -1 };
	bool fits;

	if (g->count == HINTS_MAX)
		return;
	if (strcmp(h->kind, "filesystem") == 0) {
		fits = guess_file(g, h, &v);
	} else if (strcmp(h->kind, "network") == 0) {
		fits = guess_network(g, h, &v);
	} else {
		v.reason = "not for sandboxes";
		fits = !g->exact;
	}
	if (fits) {
		g->count++;
		process_violation_hint(g->process, &v, g->tx);
	}
}

void process_hint_facts(struct process *p, struct transaction *tx)
{
	const struct engine *engine = p->engine;
	struct guesses found = { .process = p,
				 .tx = tx,
				 .no_network = process_violations_any(p, "network"),
				 .exact = engine->o.violations && !p->unwatched };
	mem_auto char *tail = NULL;

	/* Without the profile there is nothing to compare with; that is the case after a restart of the runtime. */
	if (!command_failed(p) || !(p->plan_kind & PLAN_PRIVATE_ROOT) || !p->sandbox_json || !p->committed)
		return;
	found.made = jval_of(p->sandbox_json, strlen(p->sandbox_json));
	for (int i = 0; i < STREAM_COUNT; i++) {
		uint64_t size = p->streams[i].ref[0] ? p->streams[i].size : 0,
			 from = size > TAIL_BYTES ? size - TAIL_BYTES : 0;

		if (!size)
			continue;
		if (!tail)
			tail = mem_alloc(TAIL_BYTES);
		ssize_t n = engine->o.ports->peek_output(engine->o.host, p->id, i, from, tail, (size_t)(size - from));
		if (n > 0)
			output_hints(tail, (size_t)n, on_hint, &found);
	}
}
