#include "pty/recording.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tape.h"
#include "supervisor/cli/target.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FLUSH_BYTES (64u << 10)

struct cast {
	struct recording recording;
	struct buf out;
	int fd;
	int errnum;     /* of a write that failed */
};

static bool flush(struct cast *k, size_t least)
{
	if (k->out.len < least)
		return true;
	if (k->out.len && fd_write_all(k->fd, k->out.data, k->out.len) < 0)
		k->errnum = errno;
	buf_reset(&k->out);
	return k->errnum == 0;
}

static bool on_start(void *ctx, const struct tape_start *s)
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
	return flush(k, FLUSH_BYTES);
}

static int export_cast(struct cli *c, const char *id, struct cast *k)
{
	struct tape_fns fns = { .start = on_start, .piece = on_piece, .ctx = k };
	struct err e = ERR_INIT;

	if (tape_read(c, id, &fns, &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "%s", id);
		if (e.code == ERR_STATE)
			cli_hint("bailiff logs %s shows what it printed", id);
		return EXIT_FAILED;
	}
	recording_end(&k->recording, &k->out);
	flush(k, 0);
	if (!k->errnum)
		return 0;
	if (k->errnum != EPIPE)
		cli_error("export: write: %s", strerror(k->errnum));
	return EXIT_FAILED;
}

int cmd_export(struct cli *c)
{
	const char *file = opts_get(&c->opts, OPT_export_OUTPUT);
	struct cast k = { .fd = STDOUT_FILENO };
	fd_auto int fd = -1;
	char id[TARGET_ID_MAX];
	int status;

	if (c->opts.nargs != 2)
		return cli_usage(c, "what is to be exported, and of which process?");
	if (strcmp(c->opts.args[0], "cast") != 0)
		return cli_usage(c, "'%s' is nothing that can be exported; cast is", c->opts.args[0]);
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || target_process(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	if (file && strcmp(file, "-") != 0) {
		fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
		if (fd < 0) {
			cli_error("export: %s: %s", file, strerror(errno));
			return EXIT_FAILED;
		}
		k.fd = fd;
	}
	status = export_cast(c, id, &k);
	buf_done(&k.out);
	return status;
}
