#include "supervisor/otlp/cursor.h"

#include "runtime/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 128

int cursor_read(int fd, const char *runtime_id, uint64_t *ret)
{
	char text[LINE_BYTES + 1], id[LINE_BYTES + 1];
	unsigned long long sequence;
	char end = '\0';
	ssize_t n = pread(fd, text, LINE_BYTES, 0);

	if (n <= 0)
		return 1;
	text[n] = '\0';
	if (sscanf(text, "%128s %20llu%c", id, &sequence, &end) != 3 || end != '\n' || strcmp(id, runtime_id) != 0)
		return 1;
	*ret = sequence;
	return 0;
}

int cursor_write(int fd, const char *runtime_id, uint64_t sequence, struct err *e)
{
	char text[LINE_BYTES];
	int n = snprintf(text, sizeof(text), "%s %020llu\n", runtime_id, (unsigned long long)sequence);

	if (n >= (int)sizeof(text))
		return err_set(e, ERR_INVALID, "the runtime's id is too long");
	if (pwrite(fd, text, (size_t)n, 0) != n || ftruncate(fd, n) < 0)
		return err_sys(e, errno, "write the export cursor");
	return 0;
}
