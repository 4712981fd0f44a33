#include "sandbox/tree_files.h"

#include "runtime/base/fd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 4096 /* for io.stat, which has a line per disk; the others are short */

static const struct {
	enum tree_limit controller;
	const char *v1, *v2; /* NULL = not available */
} rows[TREE_FILES] = {
	[TREE_FILE_CPU_TIME] = { TREE_LIMIT_CPU, NULL, "cpu.stat" },
	[TREE_FILE_CPU_THROTTLE] = { TREE_LIMIT_CPU, "cpu.stat", NULL },
	[TREE_FILE_MEMORY_PEAK] = { TREE_LIMIT_MEMORY, "memory.max_usage_in_bytes", "memory.peak" },
	[TREE_FILE_MEMORY_EVENTS] = { TREE_LIMIT_MEMORY, "memory.oom_control", "memory.events" },
	[TREE_FILE_PIDS_PEAK] = { TREE_LIMIT_PIDS, "pids.peak", "pids.peak" },
	[TREE_FILE_PIDS_EVENTS] = { TREE_LIMIT_PIDS, "pids.events", "pids.events" },
	[TREE_FILE_IO] = { TREE_LIMIT_IO, "blkio.throttle.io_service_bytes_recursive", "io.stat" },
};

void tree_files_init(struct tree_files *f)
{
	for (int i = 0; i < TREE_LIMITS; i++)
		f->leaf[i] = -1;
	for (int i = 0; i < TREE_FILES; i++)
		f->file[i] = -1;
}

void tree_files_close(struct tree_files *f)
{
	for (int i = 0; i < TREE_LIMITS; i++)
		fd_close(&f->leaf[i]);
	for (int i = 0; i < TREE_FILES; i++)
		fd_close(&f->file[i]);
}

static void open_file(struct tree_files *f, int i, int leaf, const char *name)
{
	fd_close(&f->file[i]);
	f->file[i] = openat(leaf, name, O_RDONLY | O_CLOEXEC);
}

void tree_files_open_v1(struct tree_files *f, enum tree_limit controller, int leaf)
{
	for (int i = 0; i < TREE_FILES; i++)
		if (rows[i].controller == controller && rows[i].v1)
			open_file(f, i, leaf, rows[i].v1);
}

void tree_files_open_v2(struct tree_files *f, int leaf)
{
	for (int i = 0; i < TREE_FILES; i++)
		if (rows[i].v2)
			open_file(f, i, leaf, rows[i].v2);
}

/* ---- reading ---- */

static bool read_text(const struct tree_files *f, enum tree_file i, char text[TEXT_MAX])
{
	ssize_t n = f->file[i] < 0 ? -1 : pread(f->file[i], text, TEXT_MAX - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Finds "name 12" on a line of its own. */
static bool read_line(const char *text, const char *name, uint64_t *ret)
{
	size_t n = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, n) == 0 && line[n] == ' ') {
			*ret = strtoull(line + n + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

/* Sums every "rbytes=12" (v2), or every "8:0 Read 12" (v1). */
static uint64_t sum_after(const char *text, const char *word)
{
	uint64_t sum = 0;

	for (const char *p = text; (p = strstr(p, word)); p += strlen(word))
		sum += strtoull(p + strlen(word), NULL, 10);
	return sum;
}

static void read_cpu(const struct tree_files *f, struct tree_count *ret)
{
	char text[TEXT_MAX];
	uint64_t ns;

	if (read_text(f, TREE_FILE_CPU_TIME, text)) {
		if (read_line(text, "user_usec", &ret->user_us) && read_line(text, "system_usec", &ret->system_us))
			ret->known |= TREE_COUNT_CPU;
		if (read_line(text, "nr_throttled", &ret->throttled_periods) &&
		    read_line(text, "throttled_usec", &ret->throttled_us))
			ret->known |= TREE_COUNT_THROTTLE;
	}
	if (read_text(f, TREE_FILE_CPU_THROTTLE, text) && read_line(text, "nr_throttled", &ret->throttled_periods) &&
	    read_line(text, "throttled_time", &ns)) {
		ret->throttled_us = ns / 1000;
		ret->known |= TREE_COUNT_THROTTLE;
	}
}

static void read_memory_events(const struct tree_files *f, struct tree_count *ret)
{
	char text[TEXT_MAX];

	if (!read_text(f, TREE_FILE_MEMORY_EVENTS, text))
		return;
	(void)read_line(text, "oom_kill", &ret->oom_kills);
	if (read_line(text, "high", &ret->high_events))
		ret->known |= TREE_COUNT_HIGH;
}

static void read_pids_events(const struct tree_files *f, struct tree_count *ret)
{
	char text[TEXT_MAX];

	if (read_text(f, TREE_FILE_PIDS_EVENTS, text))
		(void)read_line(text, "max", &ret->pids_refused);
}

void tree_files_read_denials(const struct tree_files *f, struct tree_count *ret)
{
	*ret = (struct tree_count){ 0 };
	read_memory_events(f, ret);
	read_pids_events(f, ret);
}

void tree_files_read(const struct tree_files *f, struct tree_count *ret)
{
	char text[TEXT_MAX];

	tree_files_read_denials(f, ret);
	read_cpu(f, ret);
	if (read_text(f, TREE_FILE_MEMORY_PEAK, text)) {
		ret->memory_peak = strtoull(text, NULL, 10);
		ret->known |= TREE_COUNT_MEMORY;
	}
	if (read_text(f, TREE_FILE_PIDS_PEAK, text)) {
		ret->pids_peak = strtoull(text, NULL, 10);
		ret->known |= TREE_COUNT_PIDS;
	}
	if (f->file[TREE_FILE_IO] >= 0) {
		read_text(f, TREE_FILE_IO, text); /* empty if nothing was read or written */
		ret->io_read = sum_after(text, "rbytes=") + sum_after(text, " Read ");
		ret->io_write = sum_after(text, "wbytes=") + sum_after(text, " Write ");
		ret->known |= TREE_COUNT_IO;
	}
}
