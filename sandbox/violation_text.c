#include "sandbox/violation_text.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "sandbox/root_paths.h"
#include "sandbox/violation.h"

#include <limits.h>
#include <string.h>

#define RESOLVER_PORT 53

/* A relative path starts at an open directory. Without a path, an open directory or file is all that is known. */
static void write_path(struct jval path, bool directory, struct buf *out)
{
	bool named = path.type == JT_STRING,
	     whole = named && path.len > 1 && (path.text[1] == '/' || path.text[1] == '@');

	if (named && directory)
		buf_str(out, "in ");
	if (named)
		jval_str_buf(path, out);
	if (!whole)
		buf_str(out, named ? " in an open folder" : directory ? "in an open folder" : "of an open file");
}

/* The object of the violation: a path, an address, a system call. */
static void write_object(struct jval v, struct buf *out)
{
	struct jval path = jval_get(v, "path"), host = jval_get(v, "host"), address = jval_get(v, "address");

	buf_byte(out, ' ');
	if (path.type == JT_STRING || jval_is_str(jval_get(v, "kind"), "filesystem")) {
		write_path(path, jval_is_str(jval_get(v, "pathIs"), "directory"), out);
	} else if (host.type == JT_STRING || address.type == JT_STRING) {
		bool six = host.type != JT_STRING && memchr(address.text, ':', address.len);
		buf_str(out, six ? "[" : "");
		jval_str_buf(host.type == JT_STRING ? host : address, out);
		buf_str(out, six ? "]" : "");
	} else if (jval_get(v, "syscall").type == JT_STRING) {
		jval_str_buf(jval_get(v, "syscall"), out);
	} else {
		out->len--; /* a hint may name nothing */
	}
	if (jval_get(v, "port").type == JT_NUMBER)
		buf_printf(out, ":%d", (int)jval_int(jval_get(v, "port"), 0));
}

/* The daemon's reason, or what the kernel's error means. */
static void write_reason(struct jval v, struct buf *out)
{
	struct jval reason = jval_get(v, "reason");

	if (reason.type == JT_STRING) {
		struct jval address = jval_get(v, "address");
		buf_str(out, " (");
		jval_str_buf(reason, out);
		if (address.type == JT_STRING && jval_get(v, "host").type == JT_STRING) {
			buf_str(out, ": ");
			jval_str_buf(address, out);
		}
		buf_byte(out, ')');
	} else if (jval_is_str(jval_get(v, "source"), "seccomp")) {
		buf_str(out, " (a system call that sandboxes may not use)");
	} else if (jval_is_str(jval_get(v, "errnoName"), "EROFS")) {
		buf_str(out, " (outside the write roots)");
	} else if (jval_is_str(jval_get(v, "errnoName"), "ENETUNREACH")) {
		buf_str(out, " (no network)");
	}
}

void violation_text_describe(struct jval v, struct buf *out)
{
	struct jval operation = jval_get(v, "operation");

	/* Beyond a number of different violations the rest is counted together. */
	if (jval_is_str(operation, "other")) {
		buf_printf(out, "other %s",
			   jval_is_str(jval_get(v, "kind"), "filesystem") ? "files"
			   : jval_is_str(jval_get(v, "kind"), "network")  ? "addresses"
									  : "system calls");
		return;
	}
	if (jval_is_str(operation, "call"))
		buf_str(out, "system call");
	else
		jval_str_buf(operation, out);
	write_object(v, out);
	write_reason(v, out);
}

bool violation_text_is_hint(struct jval v) { return jval_is_str(jval_get(v, "confidence"), "hint"); }

bool violation_text_is_elsewhere(struct jval v)
{
	return jval_is_str(jval_get(v, "reason"), "each command has a /tmp of its own") ||
	       jval_is_str(jval_get(v, "reason"), "each command has a loopback of its own");
}

static bool is_lookup(struct jval v)
{
	return jval_is_str(jval_get(v, "operation"), "lookup") ||
	       (jval_is_str(jval_get(v, "kind"), "network") && jval_int(jval_get(v, "port"), 0) == RESOLVER_PORT);
}

/* git status writes the index it has refreshed, if it can. Nothing of that is in hooks. A hint names no program. */
static bool is_index_refresh(struct jval v)
{
	struct jval comm = jval_get(v, "comm");
	char path[PATH_MAX];
	size_t n = jval_str(jval_get(v, "path"), path, sizeof path);

	if (!jval_is_str(jval_get(v, "operation"), "create") || !jval_is_str(jval_get(v, "pathIs"), "directory") ||
	    (comm.type != JT_NONE && !jval_is_str(comm, "git")) || n >= sizeof path)
		return false;
	if (n > 6 && strcmp(path + n - 6, "/hooks") == 0)
		return false;
	return (n > 5 && strcmp(path + n - 5, "/.git") == 0) || strstr(path, "/.git/worktrees/") ||
	       strstr(path, "/.git/modules/");
}

bool violation_text_is_optional(struct jval v) { return is_lookup(v) || is_index_refresh(v); }

/*
 * Only hosts that policy does not mention, and hosts tried without any network, can be allowed; a rule that denies a
 * host cannot be opened by naming it. A name that was looked up is better than a resolver's address, which the proxy
 * does not reach anyway.
 */
static void note_host(struct violation_needs *n, struct jval v)
{
	struct jval reason = jval_get(v, "reason"), host = jval_get(v, "host");
	bool opens = jval_is_str(reason, "not in the allowed hosts") || jval_is_str(reason, "no network");
	char found[sizeof n->host];

	if (!opens || n->host[0] || (host.type != JT_STRING && is_lookup(v)))
		return;
	size_t len = jval_str(host.type == JT_STRING ? host : jval_get(v, "address"), found, sizeof found);
	if (!len || len >= sizeof found)
		return;
	memcpy(n->host, found, len + 1);
	n->port = (int)jval_int(jval_get(v, "port"), 0);
}

/* Files and folders that programs keep keys and tokens in, under the names that they have in a home. */
static bool holds_credentials(const char *path)
{
	static const char *const names[] = { "/.ssh",
					     "/.gnupg",
					     "/.aws",
					     "/.azure",
					     "/.kube",
					     "/.docker",
					     "/.netrc",
					     "/.pgpass",
					     "/.config/gcloud",
					     "/.config/gh",
					     "/.npmrc",
					     "/.pypirc",
					     "/.git-credentials",
					     "/.password-store" };

	for (size_t i = 0; i < countof(names); i++)
		for (const char *at = path; (at = strstr(at, names[i])); at++) {
			const char end = at[strlen(names[i])];
			if (!end || end == '/')
				return true;
		}
	return false;
}

/* Only absolute paths: a name in an unknown directory does not tell what to allow. */
static void note_folder(struct violation_needs *n, struct jval v)
{
	char path[sizeof n->folder];
	size_t len = jval_str(jval_get(v, "path"), path, sizeof path);

	if (len >= sizeof path || path[0] != '/')
		return;
	char *slash = strrchr(path, '/');
	if (!jval_is_str(jval_get(v, "pathIs"), "directory"))
		slash[slash == path] = '\0';
	memcpy(n->folder, path, strlen(path) + 1);
}

/*
 * Writing the system's folders is equivalent to being root, and keys and tokens work outside of the sandbox: no option
 * is suggested for either.
 */
static bool is_outside(struct jval v, bool write)
{
	const bool directory = jval_is_str(jval_get(v, "pathIs"), "directory");
	char path[sizeof((struct violation_needs *)0)->folder];

	if (jval_str(jval_get(v, "path"), path, sizeof path) >= sizeof path || path[0] != '/')
		return false;
	const bool in_root = !directory && !strchr(path + 1, '/');
	return holds_credentials(path) || (write && (in_root || root_path_is_system(path)));
}

void violation_needs_add(struct violation_needs *n, struct jval v)
{
	struct jval operation = jval_get(v, "operation");
	bool file = jval_is_str(jval_get(v, "kind"), "filesystem");
	bool read = jval_is_str(operation, "read") || jval_is_str(operation, "execute");

	/* The sandbox did not cause it: no permission would help; or none is advised. */
	if (jval_is_str(jval_get(v, "reason"), "not permitted to its user") ||
	    jval_is_str(jval_get(v, "reason"), VIOLATION_GIT_ELSEWHERE))
		return;
	if (jval_is_str(jval_get(v, "reason"), "protected")) {
		n->protected = true;
		n->write = n->located;
		return;
	}
	if (violation_text_is_elsewhere(v)) {
		n->session = true;
		return;
	}
	if (jval_is_str(jval_get(v, "reason"), VIOLATION_BY_POLICY)) {
		n->policy = true;
		return;
	}
	if (jval_is_str(jval_get(v, "reason"), VIOLATION_KEPT_MISSING)) {
		n->closed = true;
		return;
	}
	if (file && is_outside(v, !read)) {
		n->outside = true;
		return;
	}
	note_host(n, v);
	n->network |= jval_is_str(jval_get(v, "reason"), "no network");
	n->proxy |= jval_is_str(jval_get(v, "reason"), "only through the proxy");
	n->read |= file && read;
	if (file && read && !n->file[0] && jval_is_str(jval_get(v, "reason"), "hidden") &&
	    (jval_str(jval_get(v, "path"), n->file, sizeof n->file) >= sizeof n->file || n->file[0] != '/'))
		n->file[0] = '\0';
	if (!file || read)
		return;
	struct jval path = jval_get(v, "path");
	const bool located = path.type == JT_STRING && path.len > 1 && path.text[1] == '/';
	n->located |= located;
	/* Where a protected file was denied, too, an unknown folder is likely one of those: rm -r .git, for example. */
	n->write = n->located || !n->protected;
	if (!n->folder[0] && !jval_is_str(jval_get(v, "reason"), "leads out of the write roots"))
		note_folder(n, v);
}

const char *violation_needs_person(const struct violation_needs *n)
{
	if (n->protected)
		return "protected files run or configure programs outside of the sandbox, so they stay as they are; "
		       "a person can change them outside of it";
	if (n->policy)
		return "the policy hides it: bailiff policy show lists the rules";
	if (n->outside)
		return "system folders and credentials stay closed to sandboxes; a person can do this outside of them";
	return NULL;
}

void violation_needs_host(const struct violation_needs *n, struct buf *out)
{
	bool six = strchr(n->host, ':');

	if (!n->host[0] || n->host[0] == '(')
		return;
	buf_printf(out, "%s%s%s", six ? "[" : "", n->host, six ? "]" : "");
	if (n->port > 0)
		buf_printf(out, ":%d", n->port);
}
