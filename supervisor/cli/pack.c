#include "supervisor/cli/pack.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/text.h"
#include "runtime/evidence/pack_check.h"
#include "supervisor/cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int show(const char *path, const struct pack_verdict *v)
{
	buf_auto struct buf named = BUF_INIT;

	text_sanitize_line(path, strlen(path), &named);
	buf_str(&named, ": ");
	text_sanitize_line(v->kind, strlen(v->kind), &named);
	printf("%s, %llu events (%llu to %llu), %llu read models\nsha256 %s\n", named.data, (unsigned long long)v->events,
	       (unsigned long long)v->first, (unsigned long long)v->last, (unsigned long long)v->models, v->sha256);
	if (v->ok) {
		puts("ok: the events give the pack's read models, byte for byte");
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	fflush(stdout);
	for (size_t i = 0; i < v->nproblems && i < PACK_PROBLEMS_MAX; i++)
		cli_error("%s", v->problem[i]);
	if (v->nproblems > PACK_PROBLEMS_MAX)
		cli_error("and %zu more", v->nproblems - PACK_PROBLEMS_MAX);
	return EXIT_FAILED;
}

int pack_verify(const char *path)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct pack_verdict v;
	struct err e = ERR_INIT;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || (uint64_t)st.st_size > PACK_BYTES_MAX) {
		cli_error("replay: %s: %s", path, !S_ISREG(st.st_mode) ? "not a file" : st.st_size == 0 ? "it is empty" : "larger than any pack may be");
		return EXIT_FAILED;
	}
	void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	int status = pack_check(text, (size_t)st.st_size, &v, &e) < 0 ? cli_fail(NULL, EXIT_FAILED, &e, "%s", path) : show(path, &v);
	munmap(text, (size_t)st.st_size);
	return status;
}
