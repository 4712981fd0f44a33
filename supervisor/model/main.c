#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/model/model.h"
#include "supervisor/model/model_input.h"
#include "supervisor/model/redactor.h"
#include "supervisor/model/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define AUTHORITIES_MAX (4u << 20)
#define READ_SIZE 65536

static struct transfer_secrets secrets;

__attribute__((format(printf, 4, 5))) static int fail(struct model_failure *f, const char *category, const char *stage,
						      const char *fmt, ...)
{
	va_list ap;

	f->category = category;
	f->stage = stage;
	va_start(ap, fmt);
	vsnprintf(f->message, sizeof f->message, fmt, ap);
	va_end(ap);
	return -1;
}

static void print_failure(const struct model_failure *f, struct redactor *redactor)
{
	buf_auto struct buf message = BUF_INIT, line = BUF_INIT;
	struct jw w = jw_on(&line);

	redactor_feed(redactor, f->message, strlen(f->message), true, &message);
	jw_obj(&w);
	jw_kstr(&w, "category", f->category);
	jw_kstr(&w, "stage", f->stage);
	jw_kstrn(&w, "message", buf_cstr(&message), message.len);
	jw_kbool(&w, "retryable", f->retryable);
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	(void)fd_write_all(STDERR_FILENO, line.data, line.len);
}

/* Reads to the end. −1 with errno; EFBIG if there is more than `most`. */
static int read_all(int fd, size_t most, struct buf *out)
{
	for (;;) {
		ssize_t n = read(fd, buf_reserve(out, READ_SIZE), READ_SIZE);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -1 : 0;
		buf_extend(out, (size_t)n);
		if (out->len > most) {
			errno = EFBIG;
			return -1;
		}
	}
}

/* Reads stdin; afterwards `body` has what follows the first line. */
static int read_input(struct model_input *ret, struct buf *body, struct model_failure *f)
{
	struct err e = ERR_INIT;

	if (read_all(STDIN_FILENO, MODEL_INPUT_LINE_MAX + MODEL_INPUT_BODY_MAX, body) < 0)
		return fail(f, "input", MODEL_STAGE_INPUT, "read the request: %s", strerror(errno));
	const char *end = body->len ? memchr(body->data, '\n', body->len) : NULL;
	if (!end || end - body->data > MODEL_INPUT_LINE_MAX)
		return fail(f, "input", MODEL_STAGE_INPUT,
			    "the input must begin with a line of JSON of at most %u bytes", MODEL_INPUT_LINE_MAX);
	if (model_input_parse(body->data, (size_t)(end - body->data), ret, &e) < 0)
		return fail(f, "input", MODEL_STAGE_INPUT, "%s%s%s", e.field, e.field[0] ? " " : "", e.message);
	buf_consume(body, (size_t)(end - body->data) + 1);
	return 0;
}

/* What the process can no longer do once it is confined. */
static int prepare(const struct model_input *in, struct key_reader *reader, struct buf *authorities,
		   struct model_failure *f)
{
	struct err e = ERR_INIT;

	if (in->ca_file) {
		fd_auto int fd = open(in->ca_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

		if (fd < 0 || read_all(fd, AUTHORITIES_MAX, authorities) < 0)
			return fail(f, "tls", MODEL_STAGE_CONNECT, "caFile %s: %s", in->ca_file, strerror(errno));
		if (!authorities->len)
			return fail(f, "tls", MODEL_STAGE_CONNECT, "caFile %s: the file is empty", in->ca_file);
	}
	if (!in->key_file && !in->key_command)
		return 0;
	if (key_reader_start(in->key_file, in->key_command, reader, &e) < 0 ||
	    key_reader_read(reader, &secrets.key[0], &e) < 0) {
		f->retryable = e.code == ERR_UNAVAILABLE; /* the process was killed */
		return fail(f, "key", MODEL_STAGE_KEY, "%s", e.message);
	}
	return 0;
}

static int send_request(const struct model_input *in, struct buf *body, struct redactor *redactor,
			struct model_failure *f)
{
	const struct role_sandbox_path certificates[] = ROLE_SANDBOX_CERTIFICATES;
	buf_auto struct buf authorities = BUF_INIT;
	struct key_reader reader = KEY_READER_INIT;
	struct err e = ERR_INIT;

	int r = prepare(in, &reader, &authorities, f);
	if (r == 0 && role_sandbox_enter(ROLE_SANDBOX_MODEL, certificates, countof(certificates), &e) < 0)
		r = fail(f, "protocol", MODEL_STAGE_CONNECT, "%s", e.message);
	redactor_add(redactor, secrets.key[0].text);
	if (r == 0)
		r = transfer_run(&(struct transfer_options){ .input = in,
							     .body = body,
							     .authorities = &authorities,
							     .secrets = &secrets,
							     .reader = &reader,
							     .redactor = redactor,
							     .out = STDOUT_FILENO },
				 f);
	key_reader_stop(&reader);
	return r;
}

int main(void)
{
	struct model_input in = { 0 };
	buf_auto struct buf body = BUF_INIT;
	struct redactor redactor = REDACTOR_INIT;
	struct model_failure f = { 0 };

	/* Neither in a core dump nor readable by other processes of the user; and, where the limit allows it, not in
	 * swap. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	mlock(&secrets, sizeof secrets);
	signal(SIGPIPE, SIG_IGN);
	log_setup("bailiff-model", LOG_LEVEL_ERROR,
		  false); /* stderr is for the failure; doctor reports a missing Landlock */
	int r = read_input(&in, &body, &f);
	const bool invalid = r < 0;
	if (r == 0)
		r = send_request(&in, &body, &redactor, &f);
	if (r < 0)
		print_failure(&f, &redactor);
	explicit_bzero(&secrets, sizeof secrets);
	redactor_done(&redactor);
	model_input_done(&in);
	return invalid ? MODEL_EXIT_INPUT : r < 0 ? MODEL_EXIT_FAILED : 0;
}
