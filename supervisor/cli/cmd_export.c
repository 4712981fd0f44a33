/* `export`: packs and traces that the daemon writes, and recordings of terminals, which are written here. */

#include "pty/recording.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/output_stream.h"
#include "supervisor/cli/signature.h"
#include "supervisor/cli/terminal_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (512u << 10)
#define FLUSH_BYTES (64u << 10)

/* Removes what the file had, once there is something to write: a wrong id must not cost an earlier export. */
static void empty_file(int fd)
{
	struct stat st;

	if (fd != STDOUT_FILENO && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		(void)!ftruncate(fd, 0);
}

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

/* The recording's header; TERM is what bailiff's own terminal emulates. */
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

	empty_file(k->fd);
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

/* A recording is put together here from the log, because it needs no more than a client may read anyway. */
static int export_recording(struct cli *c, int fd)
{
	struct cast k = { .fd = fd };
	struct terminal_log_fns fns = { .start = on_start, .piece = on_piece, .ctx = &k };
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup(c, ID_PROCESS, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	int r = terminal_log_read(c, id, &fns, &e);
	if (r == 0) {
		recording_end(&k.recording, &k.out);
		flush_output(&k, 0);
	}
	buf_done(&k.out);
	if (r < 0) {
		cli_fail(c, EXIT_FAILED, &e, "%s", id);
		if (e.code == ERR_STATE)
			cli_hint("bailiff logs %s shows what it printed", id);
	} else if (k.errnum && k.errnum != EPIPE) {
		cli_error("export: write: %s", strerror(k.errnum));
	}
	return r < 0 || k.errnum ? EXIT_FAILED : 0;
}

/* ---- scopes ---- */

/*
 * The scope of an export, as given by a user: the id of a session (or its beginning), thread, turn or task; a process,
 * which means its turn; or KIND=ID for ids without a prefix.
 */
struct scope {
	const char *member; /* "sessionId" */
	char id[ID_LOOKUP_MAX];
};

/* Reads a record and takes the scope from it: the first of the two members that it has. */
static int scope_of_record(struct cli *c, enum id_kind kind, const char *method, const char *given, const char *first,
			   const char *second, struct scope *ret)
{
	request_auto struct request q = REQUEST_INIT(q);
	char id[ID_LOOKUP_MAX];

	if (id_lookup(c, kind, given, id) < 0)
		return -1;
	jw_kstr(&q.w, id_kinds[kind].member, id);
	if (request_read(c, &q, method) < 0)
		return cli_fail(c, -1, &q.e, "%s", given);
	ret->member = jval_get(q.result, first).type == JT_STRING ? first : second;
	jval_str(jval_get(q.result, ret->member), ret->id, sizeof(ret->id));
	return 0;
}

/* On failure prints why and returns −1. */
static int scope_find(struct cli *c, const char *given, struct scope *ret)
{
	static const struct {
		const char *prefix, *word, *member;
	} kinds[] = {
		{ "thr_", "thread=", "threadId" },
		{ "turn_", "turn=", "turnId" },
		{ "task_", "task=", "taskId" },
		{ NULL, "session=", "sessionId" }, /* may be shortened */
	};

	for (size_t i = 0; i < countof(kinds); i++) {
		bool word = strncmp(given, kinds[i].word, strlen(kinds[i].word)) == 0;

		if (!word && (!kinds[i].prefix || strncmp(given, kinds[i].prefix, strlen(kinds[i].prefix)) != 0))
			continue;
		ret->member = kinds[i].member;
		snprintf(ret->id, sizeof(ret->id), "%s", word ? given + strlen(kinds[i].word) : given);
		return 0;
	}
	if (strncmp(given, "proc_", 5) == 0)
		return scope_of_record(c, ID_PROCESS, "get_process", given, "turnId", "turnId", ret);
	/* A job has no scope of its own: its events belong to its task, or else to its session. */
	if (strncmp(given, "job_", 4) == 0)
		return scope_of_record(c, ID_JOB, "get_job", given, "taskId", "sessionId", ret);
	ret->member = "sessionId";
	return id_lookup(c, ID_SESSION, given, ret->id);
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

/* The daemon writes the file as an output of its own store; it is then read like any other output. */
static int export_product(struct cli *c, const struct product *p, int fd)
{
	request_auto struct request q = REQUEST_INIT(q);
	struct output_piece piece = { 0 };
	char ref[ID_LOOKUP_MAX];
	struct err e = ERR_INIT;
	struct scope scope;
	int status = 0;

	if (scope_find(c, c->opts.args[1], &scope) < 0)
		return EXIT_FAILED;
	jw_kobj(&q.w, "scope");
	jw_kstr(&q.w, scope.member, scope.id);
	jw_obj_end(&q.w);
	if (p->include)
		jw_kstrv(&q.w, "include", &p->include, 1);
	if (request_change(c, &q, p->method) < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "export %s", scope.id);
	jval_str(jval_get(q.result, p->member), ref, sizeof(ref));
	empty_file(fd);
	while (!status && !piece.eof) {
		if (output_read(c, ref, piece.next, PIECE, &piece, &e) < 0) {
			status = cli_fail(c, EXIT_FAILED, &e, "read %s", ref);
		} else if (format_write(fd, piece.bytes.data, piece.bytes.len) < 0) {
			if (errno != EPIPE)
				cli_error("export: write: %s", strerror(errno));
			status = EXIT_FAILED;
		}
	}
	buf_done(&piece.bytes);
	return status;
}

/* ---- signing ---- */

/* Signs what is on disk, not what was sent: the file is read back. */
static int sign_file(int fd, const char *file, const struct signing_key *key)
{
	mem_auto char *name = mem_printf("%s" SIGNATURE_SUFFIX, file);
	unsigned char signature[SIGNATURE_BYTES];
	struct err e = ERR_INIT;
	struct stat st;
	int r = -1;

	if (fstat(fd, &st) < 0) {
		err_sys(&e, errno, "read it again");
	} else if (!S_ISREG(st.st_mode) || !st.st_size) {
		err_set(&e, ERR_INVALID, "%s cannot be signed",
			S_ISREG(st.st_mode) ? "an empty file" : "what is not a regular file");
	} else {
		void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

		r = text == MAP_FAILED ? err_sys(&e, errno, "read it again")
				       : signing_key_sign(key, text, (size_t)st.st_size, signature, &e);
		if (text != MAP_FAILED)
			munmap(text, (size_t)st.st_size);
	}
	if (r == 0) {
		fd_auto int out = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

		if (out < 0 || fd_write_all(out, signature, SIGNATURE_BYTES) < 0)
			r = err_sys(&e, errno, "write '%s'", name);
	}
	return r < 0 ? cli_fail(NULL, EXIT_FAILED, &e, "sign %s", file) : 0;
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
	const bool is_new = file && access(file, F_OK) < 0 && errno == ENOENT;
	if (file && strcmp(file, "-") != 0) {
		/* Readable, too: sign_file reads it back. */
		fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
		if (fd < 0) {
			cli_error("export: %s: %s", file, strerror(errno));
			return EXIT_FAILED;
		}
	}
	int status = p ? export_product(c, p, fd >= 0 ? fd : STDOUT_FILENO)
		       : export_recording(c, fd >= 0 ? fd : STDOUT_FILENO);
	if (status && is_new && fd >= 0 && lseek(fd, 0, SEEK_END) == 0)
		(void)unlink(file);
	/* An incomplete export is not signed. */
	return status == 0 && key ? sign_file(fd, file, key) : status;
}
