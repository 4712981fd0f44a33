/*
 * Finds lines of output that report a denial. Programs print the C library's or their language's text for an error
 * number next to what they tried: a path, quoted or between colons, or a host. Cargo and similar tools print the two on
 * different lines, so paths of the two previous lines are candidates, too.
 */

#include "sandbox/output_hint.h"

#include "runtime/base/mem.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_CAP 1024
#define NAME_NOT_FOUND (-1)   /* for a host: no errno */
#define NOT_A_REPOSITORY (-2) /* git's own: no errno */

struct phrase {
	const char *text;
	int error;
};

/* The first match in a line decides. Error names in capitals must be whole words; other texts match in any case. */
static const struct phrase phrases[] = {
	{ "read-only file system", EROFS },
	{ "EROFS", EROFS },
	{ "network is unreachable", ENETUNREACH },
	{ "ENETUNREACH", ENETUNREACH },
	{ "connection refused", ECONNREFUSED },
	{ "ECONNREFUSED", ECONNREFUSED },
	{ "failed to connect to", ENETUNREACH },
	{ "could not resolve", NAME_NOT_FOUND },
	{ "couldn't resolve", NAME_NOT_FOUND },
	{ "unable to resolve", NAME_NOT_FOUND },
	{ "temporary failure in name resolution", NAME_NOT_FOUND },
	{ "temporary failure resolving", NAME_NOT_FOUND },
	{ "name or service not known", NAME_NOT_FOUND },
	{ "EAI_AGAIN", NAME_NOT_FOUND },
	{ "ENOTFOUND", NAME_NOT_FOUND },
	{ "no such host", NAME_NOT_FOUND },
	{ "failed to lookup address", NAME_NOT_FOUND },
	{ "permission denied", EACCES },
	{ "EACCES", EACCES },
	{ "operation not permitted", EPERM },
	{ "EPERM", EPERM },
	{ "device or resource busy", EBUSY },
	{ "EBUSY", EBUSY },
	{ "no such file or directory", ENOENT },
	{ "ENOENT", ENOENT },
	{ "directory nonexistent", ENOENT },
	{ "not a git repository", NOT_A_REPOSITORY },
};

/* Programs that need a privilege which sandboxes do not have. */
static const struct {
	const char *program, *operation;
} privileged[] = {
	{ "mount", "mount" },       { "umount", "mount" },    { "chroot", "mount" },    { "unshare", "namespace" },
	{ "nsenter", "namespace" }, { "bwrap", "namespace" }, { "strace", "trace" },    { "ptrace", "trace" },
	{ "gdb", "trace" },         { "insmod", "kernel" },   { "modprobe", "kernel" }, { "dmesg", "kernel" },
	{ "hostname", "kernel" },   { "swapon", "kernel" },
};

/* Words before the error that name the operation on a path. */
static const struct {
	const char *word, *operation;
} operations[] = {
	{ "remove", "delete" },        { "unlink", "delete" },          { "rmdir", "delete" },
	{ "delete", "delete" },        { "rename", "rename" },          { "move", "rename" },
	{ "permissions", "metadata" }, { "chmod", "metadata" },         { "chown", "metadata" },
	{ "ownership", "metadata" },   { "setting times", "metadata" }, { "mkdir", "create" },
	{ "create", "create" },        { "touch", "create" },           { "symlink", "create" },
	{ "hard link", "create" },
};

struct scanner {
	char line[LINE_CAP];
	char before[2][LINE_CAP]; /* the two previous lines, the nearer first */
	output_hint_fn *fn;
	void *ctx;
};

/* ---- words ---- */

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Finds an occurrence that is not part of a longer word. */
static const char *find_word(const char *line, const char *word, bool exact_case)
{
	size_t n = strlen(word);
	for (const char *p = line; (p = exact_case ? strstr(p, word) : strcasestr(p, word)); p++) {
		if ((p == line || !is_word(p[-1]) || !is_word(word[0])) && (!is_word(p[n]) || !is_word(word[n - 1])))
			return p;
	}
	return NULL;
}

static const struct phrase *find_phrase(const char *line, const char **ret_at)
{
	for (size_t i = 0; i < countof(phrases); i++) {
		const char *at = find_word(line, phrases[i].text, isupper((unsigned char)phrases[i].text[0]));
		if (at) {
			*ret_at = at;
			return &phrases[i];
		}
	}
	return NULL;
}

/* ---- paths ---- */

static void add_path(struct output_hint *h, const char *from, size_t n)
{
	while (n && strchr(" \t:,;(", from[0])) {
		from++;
		n--;
	}
	while (n && strchr(" \t:,;).", from[n - 1]))
		n--;
	if (!n || n >= OUTPUT_HINT_PATH_MAX || h->npaths == OUTPUT_HINT_PATHS || memmem(from, n, "://", 3))
		return;
	for (size_t i = 0; i < h->npaths; i++) {
		if (strlen(h->paths[i]) == n && memcmp(h->paths[i], from, n) == 0)
			return;
	}
	memcpy(h->paths[h->npaths], from, n);
	h->paths[h->npaths++][n] = 0;
}

static const struct {
	const char *open, *close;
} quotes[] = { { "'", "'" }, { "\"", "\"" }, { "`", "`" }, { "\xe2\x80\x98", "\xe2\x80\x99" }, { "`", "'" } };

/* Adds quoted names, the last one first: in "cannot move 'a' to '/b'" that is the one that was denied. */
static void add_quoted(struct output_hint *h, const char *line, bool absolute)
{
	const char *from[16];
	size_t len[16], n = 0;
	for (const char *p = line; *p && n < countof(from); p++) {
		for (size_t q = 0; q < countof(quotes); q++) {
			size_t open = strlen(quotes[q].open);
			const char *end = strncmp(p, quotes[q].open, open) == 0 ? strstr(p + open, quotes[q].close)
										: NULL;
			/* An apostrophe inside a word does not open a quote. */
			if (!end || end == p + open || (p > line && is_word(p[-1])))
				continue;
			from[n] = p + open;
			len[n++] = (size_t)(end - p) - open;
			p = end + strlen(quotes[q].close) - 1;
			break;
		}
	}
	while (n-- > 0) {
		if (!absolute || *from[n] == '/')
			add_path(h, from[n], len[n]);
	}
}

/*
 * "cp: /etc/x: Read-only file system", "open /etc/x: read-only file system": adds the text before the error, from the
 * previous colon on.
 */
static void add_before(struct output_hint *h, const char *line, const char *at)
{
	const char *end = at, *from;
	while (end > line && strchr(" \t:,([", end[-1]))
		end--;
	for (from = end; from > line && !(from[-1] == ' ' && from - 1 > line && from[-2] == ':'); from--)
		;
	if (from == end)
		return;
	const char *space = memrchr(from, ' ', (size_t)(end - from));
	if (*from != '/' && space)
		from = space + 1;
	add_path(h, from, (size_t)(end - from));
}

static void add_absolute(struct output_hint *h, const char *line)
{
	for (const char *p = line; (p = strchr(p, '/'));) {
		size_t n = strcspn(p, " \t'\"`,;()");
		if (p == line || strchr(" \t'\"`(=:", p[-1]))
			add_path(h, p, n);
		p += n ? n : 1;
	}
}

/*
 * Matches any word of the line: some texts name the call after the error ("EROFS: read-only file system, mkdir '/x'").
 */
static const char *operation_of(const char *line, int error)
{
	for (size_t i = 0; i < countof(operations); i++) {
		const char *word = strcasestr(line, operations[i].word);
		bool creates = strcmp(operations[i].operation, "create") == 0;
		if (word && (word == line || !is_word(word[-1])) &&
		    (creates || error != ENOENT)) /* a missing file cannot be removed or renamed */
			return operations[i].operation;
	}
	return error == EROFS || error == EBUSY ? "write" : "read";
}

static const char *privileged_operation(const char *line)
{
	for (size_t i = 0; i < countof(privileged); i++) {
		size_t n = strlen(privileged[i].program);
		if (strncmp(line, privileged[i].program, n) == 0 && (line[n] == ':' || line[n] == '('))
			return privileged[i].operation;
	}
	return NULL;
}

static void report_file(struct scanner *s, const char *at, struct output_hint *h)
{
	const char *operation = h->error == EPERM || h->error == EACCES ? privileged_operation(s->line) : NULL;
	bool repository = h->error == NOT_A_REPOSITORY;
	h->kind = operation ? "syscall" : "filesystem";
	h->operation = operation ? operation : operation_of(s->line, h->error);
	if (repository) {
		h->error = ENOENT;
		add_absolute(h, at);
		if (!h->npaths)
			return; /* there is none, which is usual */
	} else if (!operation) {
		add_quoted(h, s->line, false);
		add_before(h, s->line, at);
		add_absolute(h, s->line);
		for (size_t i = 0; i < countof(s->before) && h->error != ENOENT; i++)
			add_quoted(h, s->before[i], true);
		if (!h->npaths)
			return;
	}
	s->fn(s->ctx, h);
}

/* ---- hosts ---- */

/* Parses the number after ":", "/" or " port ". */
static void parse_port(struct output_hint *h, const char *p)
{
	static const char *const before[] = { ":", "/", " port ", ", port ", ", port=", "]:" };
	for (size_t i = 0; i < countof(before); i++) {
		size_t n = strlen(before[i]);
		if (strncmp(p, before[i], n) != 0 || !isdigit((unsigned char)p[n]))
			continue;
		long port = strtol(p + n, NULL, 10);
		if (port > 0 && port < 65536)
			h->port = (int32_t)port;
	}
}

static bool is_of_this_host(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strncmp(address, "0.", 2) == 0 || strcmp(address, "::") == 0 ||
	       strcmp(address, "::1") == 0;
}

static bool parse_address_at(struct output_hint *h, const char *p, size_t n, int family)
{
	unsigned char bytes[16];
	char text[sizeof h->address];
	size_t len = family == AF_INET ? strspn(p, "0123456789.") : n;
	while (len > 1 &&
	       (p[len - 1] == '.' ||
		(p[len - 1] == ':' && p[len - 2] != ':'))) /* punctuation of the sentence, not of the address */
		len--;
	if (!len || len >= sizeof text)
		return false;
	memcpy(text, p, len);
	text[len] = 0;
	if (inet_pton(family, text, bytes) != 1 || is_of_this_host(text))
		return false;
	memcpy(h->address, text, len + 1);
	parse_port(h, p + len);
	return true;
}

static bool find_address(struct output_hint *h, const char *line)
{
	static const char digits[] = "0123456789abcdefABCDEF:.";
	for (const char *p = line; *p;) {
		size_t n = strspn(p, digits);
		if (n >= 3 && (p == line || !is_word(p[-1])) && !is_word(p[n]) &&
		    (parse_address_at(h, p, n, AF_INET) || parse_address_at(h, p, n, AF_INET6)))
			return true;
		p += n ? n : 1;
	}
	return false;
}

/* A name of letters, digits, dots and hyphens, with at least one dot, whose last part is not a number. */
static bool parse_host_at(struct output_hint *h, const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
	while (n && strchr(".-", p[n - 1]))
		n--;
	const char *dot = n ? memrchr(p, '.', n) : NULL;
	if (!dot || dot == p || n >= sizeof h->host || n - (size_t)(dot - p) < 3 || !isalpha((unsigned char)dot[1]))
		return false;
	memcpy(h->host, p, n);
	h->host[n] = 0;
	parse_port(h, p + n + (p[n] == '\''));
	return true;
}

/* Searches after a word that introduces a host, or before the error: "ping: example.org: Temporary failure …". */
static bool find_host(struct output_hint *h, const char *line, const char *at)
{
	static const char *const before[] = {
		"://",
		"host='",
		"resolve host: ",
		"resolve hostname ",
		"resolve host address '",
		"resolve host address \xe2\x80\x98",
		"resolving '",
		"lookup ",
		"EAI_AGAIN ",
		"ENOTFOUND ",
		"connect to ",
		"connect to host ",
		"resolve '",
		"resolve \"",
		"resolve: ",
	};
	for (size_t i = 0; i < countof(before); i++) {
		const char *p = strcasestr(line, before[i]);
		if (p && parse_host_at(h, p + strlen(before[i])))
			return true;
	}
	const char *end = at;
	while (end > line && strchr(" :", end[-1]))
		end--;
	while (end > line && !strchr(" \t'\"(", end[-1]))
		end--;
	return parse_host_at(h, end);
}

/* "localhost port 3000", "127.0.0.1:3000", "(127.0.0.1), port 5432": any of them, one with a port if possible. */
static bool find_this_host(struct output_hint *h, const char *line)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "127.0.1.1", "::1", "0.0.0.0" };
	for (size_t i = 0; i < countof(names) && h->port < 0; i++) {
		for (const char *p = line; h->port < 0 && (p = strstr(p, names[i])); p++) {
			const char *end = p + strlen(names[i]);
			if ((p > line && (is_word(p[-1]) || strchr(".-:", p[-1]))) || is_word(*end))
				continue;
			snprintf(h->host, sizeof h->host, "%s", "localhost");
			parse_port(h, end + strspn(end, "'\"|)"));
		}
	}
	return h->host[0];
}

/* A refusal without an address is about this machine, unless the line names another one. */
static void report_refused(struct scanner *s, const char *at, struct output_hint *h)
{
	struct output_hint other = *h;
	h->kind = "network";
	h->operation = "connect";
	h->error = ECONNREFUSED;
	h->this_host = find_this_host(h, s->line) ||
		       (!find_address(&other, s->line) && !find_host(&other, s->line, at));
	if (h->this_host)
		s->fn(s->ctx, h);
}

static void report_network(struct scanner *s, const char *at, struct output_hint *h)
{
	bool name = h->error == NAME_NOT_FOUND;
	h->kind = "network";
	h->operation = name ? "lookup" : "connect";
	h->error = name ? 0 : ENETUNREACH;
	if (strncasecmp(at, "failed", 6) == 0 && find_this_host(h, s->line)) {
		report_refused(s, at, h);
		return;
	}
	bool address = !name && find_address(h, s->line);
	if (!address && !find_host(h, s->line, at) && (name || strncasecmp(at, "failed", 6) == 0))
		return; /* it may be about this machine, and a lookup without its name is not useful */
	s->fn(s->ctx, h);
}

/* ---- lines ---- */

static void scan_line(struct scanner *s)
{
	const char *at;
	const struct phrase *found = find_phrase(s->line, &at);
	if (found) {
		struct output_hint *h = mem_zalloc(1, sizeof *h);
		h->error = found->error;
		h->port = -1;
		snprintf(h->line, sizeof h->line, "%.*s", OUTPUT_HINT_LINE - 1, s->line);
		if (found->error == ECONNREFUSED)
			report_refused(s, at, h);
		else if (found->error == NAME_NOT_FOUND || found->error == ENETUNREACH)
			report_network(s, at, h);
		else
			report_file(s, at, h);
		free(h);
	}
	memcpy(s->before[1], s->before[0], sizeof s->before[1]);
	memcpy(s->before[0], s->line, sizeof s->before[0]);
}

/* Length of an escape sequence at its ESC: a control sequence, a string up to its terminator, or two bytes. */
static size_t escape_length(const char *p, const char *end)
{
	const char *q = p + 1;
	if (q < end && *q == '[') {
		for (q++; q < end && (unsigned char)*q < 0x40; q++)
			;
	} else if (q < end && *q && strchr("]PX^_", *q)) {
		for (q++; q < end && *q != '\a' && *q != '\033' && *q != '\n'; q++)
			;
		if (q + 1 < end && *q == '\033' && q[1] == '\\')
			q++;
		if (q < end && *q == '\n')
			q--;
	}
	return (size_t)(q < end ? q + 1 - p : end - p);
}

void output_hints(const char *text, size_t len, output_hint_fn *fn, void *ctx)
{
	struct scanner *s = mem_zalloc(1, sizeof *s);
	size_t n = 0;
	s->fn = fn;
	s->ctx = ctx;
	for (const char *p = text, *end = text + len; p < end;) {
		if (*p == '\033') {
			p += escape_length(p, end);
			continue;
		}
		char c = *p++;
		bool ends = c == '\n' || c == '\r' || !c;
		if (!ends && (unsigned char)c >= ' ' && c != 0x7f && n + 1 < sizeof s->line)
			s->line[n++] = c;
		if ((!ends && p < end) || !n)
			continue;
		s->line[n] = 0;
		n = 0;
		scan_line(s);
	}
	free(s);
}
