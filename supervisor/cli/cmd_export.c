#include "pty/recording.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/scope.h"
#include "supervisor/cli/signature.h"
#include "supervisor/cli/terminal_log.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FLUSH_BYTES (64u << 10)

struct cast {
	struct recording recording;
	struct buf out;
	int fd;
	int errnum; /* of a failed write */
};

/* Writes at least `least` bytes at a time; 0 flushes everything. */
static bool flush_output(struct cast *k, size_t least)
{
	if (k->out.len < least)
		return true;
	if (format_write(k->fd, k->out.data, k->out.len) < 0)
		k->errnum = errno;
	buf_reset(&k->out);
	return k->errnum == 0;
}

static bool on_start(void *ctx, const struct terminal_log_start *s)
{
	struct cast *k = ctx;
	struct recording_header h = {
		.rows = s->rows,
		.cols = s->cols,
		.timestamp_s = s->at_us / 1000000,
		.command = buf_cstr(&s->command),
		.term = "xterm-256color",
	};

	recording_begin(&k->recording, &h, s->at_us, &k->out);
	return true;
}

static bool on_piece(void *ctx, uint64_t at_us, const char *bytes, size_t n, unsigned rows, unsigned cols)
{
	struct cast *k = ctx;

	if (n)
		recording_output(&k->recording, at_us, bytes, n, &k->out);
	else
		recording_resize(&k->recording, at_us, rows, cols, &k->out);
	return flush_output(k, FLUSH_BYTES);
}

static int export_cast(struct cli *c, const char *id, struct cast *k)
{
	struct terminal_log_fns fns = { .start = on_start, .piece = on_piece, .ctx = k };
	struct err e = ERR_INIT;

	if (terminal_log_read(c, id, &fns, &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "%s", id);
		if (e.code == ERR_STATE)
			cli_hint("bailiff logs %s shows what it printed", id);
		return EXIT_FAILED;
	}
	recording_end(&k->recording, &k->out);
	flush_output(k, 0);
	if (!k->errnum)
		return 0;
	if (k->errnum != EPIPE)
		cli_error("export: write: %s", strerror(k->errnum));
	return EXIT_FAILED;
}

/* ---- exports by the daemon ---- */

static const struct product {
	const char *name, *method, *include, *member;
} products[] = {
	{ "evidence", "export_evidence", NULL, "packRef" },
	{ "replay", "export_replay", NULL, "packRef" },
	{ "review", "export_review", NULL, "packRef" },
	{ "trajectory", "export_evidence", "trajectory", "trajectoryRef" },
	{ "trace", "export_evidence", "trace", "traceRef" },
	{ "transcript", "export_evidence", "transcript", "runtimeTranscriptRef" },
	{ "manifest", "export_evidence", "manifest", "artifactManifestRef" },
};

static int request_export(struct cli *c, const struct product *p, const struct scope *scope, char ref[ID_LOOKUP_MAX])
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kobj(&w, "scope");
	jw_kstr(&w, scope->member, scope->id);
	jw_obj_end(&w);
	if (p->include)
		jw_kstrv(&w, "include", &p->include, 1);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, p->method, &params, &a, &e) < 0)
		return cli_fail(c, -1, &e, "export %s", scope->id);
	jval_str(jval_get(a.result, p->member), ref, ID_LOOKUP_MAX);
	return 0;
}

static int copy_output(struct cli *c, const char *ref, int fd)
{
	buf_auto struct buf bytes = BUF_INIT;
	uint64_t offset = 0;

	for (;;) {
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		buf_auto struct buf params = BUF_INIT;
		struct jw w = jw_on(&params);
		struct err e = ERR_INIT;

		jw_obj(&w);
		jw_kstr(&w, "outputRef", ref);
		jw_kuint(&w, "offset", offset);
		jw_kuint(&w, "length", 512u << 10);
		jw_obj_end(&w);
		if (cli_call(c, "read_output", &params, &a, &e) < 0)
			return cli_fail(c, EXIT_FAILED, &e, "read %s", ref);
		buf_reset(&bytes);
		jval_str_buf(jval_get(a.result, "data"), &bytes);
		if (format_write(fd, bytes.data, bytes.len) < 0) {
			if (errno != EPIPE)
				cli_error("export: write: %s", strerror(errno));
			return EXIT_FAILED;
		}
		offset = jval_uint(jval_get(a.result, "nextOffset"), offset);
		if (jval_bool(jval_get(a.result, "eof"), true))
			return 0;
	}
}

static int export_product(struct cli *c, const struct product *p, int fd)
{
	char ref[ID_LOOKUP_MAX];
	struct scope scope;

	if (scope_find(c, c->opts.args[1], &scope) < 0 || request_export(c, p, &scope, ref) < 0)
		return EXIT_FAILED;
	return copy_output(c, ref, fd);
}

static int export_recording(struct cli *c, int fd)
{
	struct cast k = { .fd = fd };
	char id[ID_LOOKUP_MAX];

	if (id_lookup_process(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	int status = export_cast(c, id, &k);
	buf_done(&k.out);
	return status;
}

/* ---- signing ---- */

static int write_signature(const char *file, const unsigned char signature[SIGNATURE_BYTES], struct err *e)
{
	mem_auto char *name = mem_printf("%s" SIGNATURE_SUFFIX, file);
	fd_auto int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0 || fd_write_all(fd, signature, SIGNATURE_BYTES) < 0)
		return err_sys(e, errno, "write '%s'", name);
	return 0;
}

/* Signs what is on disk, not what was sent: the file is read back. */
static int sign_file(int fd, const char *file, const struct signing_key *key)
{
	unsigned char signature[SIGNATURE_BYTES];
	struct err e = ERR_INIT;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !st.st_size)
		return cli_fail(NULL, EXIT_FAILED, &e, "%s: an empty file cannot be signed", file);
	void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED) {
		err_sys(&e, errno, "read it again");
		return cli_fail(NULL, EXIT_FAILED, &e, "%s", file);
	}
	int r = signing_key_sign(key, text, (size_t)st.st_size, signature, &e);
	munmap(text, (size_t)st.st_size);
	if (r < 0 || write_signature(file, signature, &e) < 0)
		return cli_fail(NULL, EXIT_FAILED, &e, "sign %s", file);
	return 0;
}

int cmd_export(struct cli *c)
{
	const char *file = opts_get(&c->opts, OPT_export_OUTPUT), *key_file = opts_get(&c->opts, OPT_export_SIGN);
	signing_key_auto struct signing_key *key = NULL;
	struct err e = ERR_INIT;
	const struct product *p = NULL;
	fd_auto int fd = -1;

	if (c->opts.nargs != 2)
		return cli_usage(c, "missing kind or scope of the export");
	for (size_t i = 0; i < countof(products); i++)
		if (strcmp(c->opts.args[0], products[i].name) == 0)
			p = &products[i];
	if (!p && strcmp(c->opts.args[0], "cast") != 0)
		return cli_usage(c, "'%s' is not a kind of export", c->opts.args[0]);
	if (key_file && (!file || strcmp(file, "-") == 0))
		return cli_usage(c, "option '--sign' needs a file: name it with -o");
	if (key_file && signing_key_read(key_file, &key, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "export");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (file && strcmp(file, "-") != 0) {
		fd = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0) {
			cli_error("export: %s: %s", file, strerror(errno));
			return EXIT_FAILED;
		}
	}
	int status = p ? export_product(c, p, fd >= 0 ? fd : STDOUT_FILENO)
		       : export_recording(c, fd >= 0 ? fd : STDOUT_FILENO);
	return status == 0 && key ? sign_file(fd, file, key) : status;
}
