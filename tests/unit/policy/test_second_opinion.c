/*
 * Real scripts again: another shell parser, the npm package mvdan-sh, must find the same simple commands in them.
 * Skipped where node and npm are missing or npm cannot get the package.
 */

#include "runtime/base/mem.h"
#include "tests/unit/policy/corpus.h"
#include "tests/unit/policy/scripts.h"
#include "tests/unit/suite.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODULES "build/npm/node_modules"
/* The other parser is slow. */
#define EACH 300
#define SIZE (12 << 10)
#define PACKAGE "mvdan-sh@0.10.1"

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* "F path" and a line for each command, as second_opinion.js writes them. */
static void list_our_commands(const char *path, bool bash, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	struct shell_script s;

	scripts_read(path, &text);
	ck_assert_msg(shell_parse(text.data, text.len, bash ? SHELL_BASH : SHELL_POSIX, &s) == 0, "%s: %s", path,
		      s.error.message);
	char **lines = mem_zalloc(s.count + 1, sizeof(*lines));
	size_t n = 0;
	for (size_t i = 0; i < s.count; i++) {
		const struct shell_command *c = &s.command[i];
		const char *name = !c->nwords ? "=" : c->word[0].value ? c->word[0].value : "?";

		if (c->kind == SHELL_SIMPLE && (c->nwords || c->nassignments))
			lines[n++] = bash ? mem_strdup(name) : mem_printf("%s %zu", name, c->nwords);
	}
	qsort(lines, n, sizeof(*lines), by_text);
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%s\n", lines[i]);
		free(lines[i]);
	}
	free(lines);
	shell_script_done(&s);
}

struct tally {
	unsigned same, different, refused;
};

/* Compares one script's part of the other parser's output, which ends before the next "F /". */
static void compare(const char *path, bool bash, const char *theirs, size_t len, struct tally *t)
{
	buf_auto struct buf ours = BUF_INIT;

	if (len > 2 && strncmp(theirs, "E ", 2) == 0) {
		t->refused++; /* it does not support everything that the shells do */
		return;
	}
	list_our_commands(path, bash, &ours);
	if (ours.len == len && memcmp(buf_cstr(&ours), theirs, len) == 0) {
		t->same++;
		return;
	}
	size_t at = 0;
	while (at < len && at < ours.len && theirs[at] == ours.data[at])
		at++;
	fprintf(stderr, "%s: from byte %zu on: they say %.*s, we say %.40s\n", path, at,
		(int)(len - at > 40 ? 40 : len - at), theirs + at, buf_cstr(&ours) + (at < ours.len ? at : ours.len));
	t->different++;
}

static void batch(const struct scripts *s, bool bash, struct tally *t)
{
	const char **argv = mem_zalloc(s->count + 6, sizeof(*argv));
	buf_auto struct buf said = BUF_INIT;
	char modules[PATH_MAX];
	struct stat st;
	size_t n = 0;

	ck_assert_ptr_nonnull(realpath(MODULES, modules));
	argv[n++] = "node";
	argv[n++] = "tests/unit/policy/second_opinion.js";
	argv[n++] = modules;
	argv[n++] = bash ? "bash" : "posix";
	size_t taken = 0;
	for (size_t i = 0; i < s->count && taken < EACH; i++)
		if (s->bash[i] == bash && stat(s->path[i], &st) == 0 && st.st_size <= SIZE) {
			argv[n++] = s->path[i];
			taken++;
		}
	ck_assert_int_eq(oracle_run(argv, 1, &said), 0);
	buf_byte(&said, '\0');
	for (const char *at = said.data; at && *at;) {
		const char *line = strchr(at, '\n'), *next = line ? strstr(line, "\nF /") : NULL;
		char path[PATH_MAX];

		ck_assert(line != NULL && strncmp(at, "F /", 3) == 0);
		(void)snprintf(path, sizeof(path), "%.*s", (int)(line - at - 2), at + 2);
		compare(path, bash, line + 1, next ? (size_t)(next - line) : strlen(line + 1), t);
		at = next ? next + 1 : NULL;
	}
	free(argv);
}

START_TEST(another_parser_finds_the_same_commands)
{
	struct scripts s = { 0 };
	struct tally t = { 0 };

	scripts_find(&s);
	batch(&s, false, &t);
	batch(&s, true, &t);
	fprintf(stderr, "%u scripts with the same commands, %u that the other parser rejects\n", t.same, t.refused);
	ck_assert_uint_eq(t.different, 0);
	ck_assert_uint_ge(t.same, 50);
	ck_assert_uint_le(t.refused * 20, t.same);
	scripts_done(&s);
}
END_TEST

int main(void)
{
	static const char *const node[] = { "node", "-e", "0", NULL };
	static const char *const npm[] = {
		"timeout",   "60",         "npm",       "install",           "--prefix",
		"build/npm", "--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=15000",
		PACKAGE,     NULL
	};
	buf_auto struct buf said = BUF_INIT;

	if (oracle_run(node, 1, &said) != 0) {
		printf("node is not here\n");
		return 77;
	}
	if (access(MODULES "/mvdan-sh", R_OK) < 0 &&
	    (oracle_run(npm, 1, &said) != 0 || access(MODULES "/mvdan-sh", R_OK) < 0)) {
		printf("npm cannot get " PACKAGE "\n");
		return 77;
	}
	return SUITE("second_opinion", another_parser_finds_the_same_commands);
}
