#include "supervisor/common/process_title.h"

#include "runtime/base/mem.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Extends the area over `s` if that follows directly. */
static void extend_area(struct process_title *t, const char *s)
{
	if (s == t->area + t->size)
		t->size += strlen(s) + 1;
}

void process_title_init(struct process_title *t, int argc, char **argv)
{
	*t = (struct process_title){ .area = argc > 0 ? argv[0] : NULL };
	for (int i = 0; i < argc; i++) {
		extend_area(t, argv[i]);
		argv[i] = mem_strdup(argv[i]);
	}
	size_t n = 0;
	while (environ && environ[n])
		n++;
	char **copy = mem_zalloc(n + 1, sizeof *copy);
	for (size_t i = 0; i < n; i++) {
		extend_area(t, environ[i]);
		copy[i] = mem_strdup(environ[i]);
	}
	environ = copy;
}

void process_title_replace(struct process_title *t, const char *text)
{
	if (t->size < 2)
		return;
	size_t len = strnlen(text, t->size - 1);
	memcpy(t->area, text, len);
	memset(t->area + len, 0, t->size - len);
}

/* The kernel limits a thread's name to 15 bytes: "bailiff-" and up to 7 of the role. */
void process_title_set(struct process_title *t, const char *text)
{
	const char *space = strrchr(text, ' ');
	char name[16];
	size_t n = strnlen(space ? space + 1 : text, 7);
	memcpy(name, "bailiff-", 8);
	memcpy(name + 8, space ? space + 1 : text, n);
	name[8 + n] = 0;
	prctl(PR_SET_NAME, name, 0, 0, 0);
	process_title_replace(t, text);
}
