#include "supervisor/cli/verify_pack.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/evidence/pack_check.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/signature.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int print_problems(const char *path, const struct pack_verdict *v)
{
	buf_auto struct buf named = BUF_INIT;

	text_sanitize_line(path, strlen(path), &named);
	buf_str(&named, ": ");
	text_sanitize_line(v->kind, strlen(v->kind), &named);
	printf("%s, %llu events (%llu to %llu), %llu read models\nsha256 %s\n", named.data,
	       (unsigned long long)v->events, (unsigned long long)v->first, (unsigned long long)v->last,
	       (unsigned long long)v->models, v->sha256);
	if (v->ok) {
		puts("ok: the events give the pack's read models, byte for byte, and every byte is as it was exported");
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	fflush(stdout);
	for (size_t i = 0; i < v->nproblems && i < PACK_PROBLEMS_MAX; i++)
		cli_error("%s", v->problem[i]);
	if (v->nproblems > PACK_PROBLEMS_MAX)
		cli_error("and %zu more", v->nproblems - PACK_PROBLEMS_MAX);
	return EXIT_FAILED;
}

/* Must run before the contents are parsed. */
static int check_signature(const char *path, const void *text, size_t len, const char *key, struct err *e)
{
	mem_auto char *name = mem_printf("%s" SIGNATURE_SUFFIX, path);
	unsigned char signature[SIGNATURE_BYTES + 1];
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, signature, sizeof signature);

	if (n < 0)
		return err_sys(e, errno, "read its signature '%s'", name);
	if (n != SIGNATURE_BYTES)
		return err_set(e, ERR_INVALID, "'%s' is not a signature: it has %s than %u bytes", name,
			       n < SIGNATURE_BYTES ? "less" : "more", SIGNATURE_BYTES);
	return signature_check(key, text, len, signature, e);
}

static int check_pack(const char *path, const char *text, size_t len, const char *key)
{
	struct pack_verdict v;
	struct err e = ERR_INIT;

	if ((key && check_signature(path, text, len, key, &e) < 0) || pack_check(text, len, &v, &e) < 0)
		return cli_fail(NULL, EXIT_FAILED, &e, "%s", path);
	int status = print_problems(path, &v);
	if (status == 0 &&
	    (key ? puts("ok: signed with the given key") : puts("not checked: who exported it (--key PUBKEY)")) == EOF)
		return EXIT_FAILED;
	return status;
}

int verify_pack(const char *path, const char *key)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || (uint64_t)st.st_size > PACK_BYTES_MAX) {
		cli_error("replay: %s: %s", path,
			  !S_ISREG(st.st_mode) ? "not a file"
			  : st.st_size == 0    ? "the file is empty"
					       : "larger than any pack may be");
		return EXIT_FAILED;
	}
	void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	int status = check_pack(path, text, (size_t)st.st_size, key);
	munmap(text, (size_t)st.st_size);
	return status;
}
