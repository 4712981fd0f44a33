#include "tests/unit/policy/corpus.h"

#include "tests/unit/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const corpus_names[] = { "plain",       "quoting", "structure",  "obfuscated",  "wrappers",
				     "destructive", "network", "unreadable", "shell_modes", NULL };

static void call(corpus_fn *fn, void *ctx, struct corpus_case *c)
{
	if (c->number)
		fn(ctx, c);
	buf_reset(&c->line);
	buf_reset(&c->expected);
}

unsigned corpus_each(const char *name, corpus_fn *fn, void *ctx)
{
	char path[256], *line = NULL;
	size_t room = 0;
	unsigned count = 0, number = 0;
	struct corpus_case c = { .file = path };

	(void)snprintf(path, sizeof(path), "tests/unit/policy/corpus/%s.txt", name);
	FILE *f = fopen(path, "r");
	ck_assert_msg(f != NULL, "%s: run this from the top of the tree", path);
	for (ssize_t n; (n = getline(&line, &room, f)) >= 0;) {
		number++;
		if (n && line[n - 1] == '\n')
			line[--n] = '\0';
		if (strncmp(line, "$ ", 2) == 0) {
			call(fn, ctx, &c);
			c.number = number;
			count++;
			buf_append(&c.line, line + 2, (size_t)n - 2);
		} else if (*line == '>') {
			buf_byte(&c.line, '\n');
			buf_str(&c.line, line[1] ? line + 2 : "");
		} else if (*line && *line != '#') {
			buf_append(&c.expected, line, (size_t)n);
			buf_byte(&c.expected, '\n');
		}
	}
	call(fn, ctx, &c);
	(void)fclose(f);
	free(line);
	buf_done(&c.line);
	buf_done(&c.expected);
	return count;
}

int oracle_run(const char *const *argv, int fd, struct buf *out)
{
	int pipes[2], status;

	if (pipe(pipes) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		for (int i = 0; i < 3; i++)
			if (i != fd)
				(void)dup2(null, i);
		(void)dup2(pipes[1], fd);
		for (int i = 0; i < 2; i++)
			if (pipes[i] != fd)
				(void)close(pipes[i]);
		(void)execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	(void)close(pipes[1]);
	for (ssize_t n; pid > 0 && (n = read(pipes[0], buf_reserve(out, 4096), 4096)) > 0;)
		out->len += (size_t)n;
	(void)close(pipes[0]);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -1 : status;
}
