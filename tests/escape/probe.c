/*
 * probe NAME[=ARG]...: tries each way out and prints `NAME: open|shut DETAIL`. See probe.h; what is expected of each,
 * and where, is in test_escape.py.
 */

#include "tests/escape/probe.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 60

static char said[512];

void probe_say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(said, sizeof said, format, args);
	va_end(args);
}

int probe_shut(int error)
{
	errno = error;
	return -1;
}

int probe_reached(long result, int nonsense) { return result >= 0 || errno == nonsense ? 0 : -1; }

static const struct probe *find(const char *name)
{
	const struct probe *const sets[] = { probe_files, probe_kernel, probe_process, probe_network };
	for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
		for (const struct probe *p = sets[i]; p->name; p++)
			if (strcmp(p->name, name) == 0)
				return p;
	return NULL;
}

static void run(const struct probe *p, const char *word, const char *arg)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(PATIENCE_S);
		errno = 0;
		int r = p->try_it(arg);
		const char *name = r < 0 ? strerrorname_np(errno) : "";
		printf("%s: %s %s%s%s\n", word, r < 0 ? "shut" : "open", name ? name : "?", said[0] ? " " : "", said);
		fflush(stdout);
		_exit(0);
	}
	int status = 0;
	if (pid < 0)
		printf("%s: odd fork %s\n", word, strerrorname_np(errno));
	else if (waitpid(pid, &status, 0) == pid && WIFSIGNALED(status))
		printf("%s: %s SIG%s\n", word, WTERMSIG(status) == SIGSYS ? "shut" : "odd",
		       sigabbrev_np(WTERMSIG(status)));
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *equals = strchr(argv[i], '=');
		char name[64];
		snprintf(name, sizeof name, "%.*s", (int)(equals ? equals - argv[i] : 60), argv[i]);
		const struct probe *p = find(name);
		if (!p) {
			fprintf(stderr, "probe: no probe '%s'\n", name);
			return 2;
		}
		run(p, argv[i], equals ? equals + 1 : "");
	}
	return 0;
}
