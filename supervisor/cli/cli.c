#include "supervisor/cli/cli.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/client/remote.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* An error is one line: quoted text must not be able to imitate another line. */
static void print_message(const char *prefix, bool one_line, const char *fmt, va_list ap)
{
	buf_auto struct buf text = BUF_INIT, line = BUF_INIT;

	buf_vprintf(&text, fmt, ap);
	buf_str(&line, prefix);
	(one_line ? text_sanitize_line : text_sanitize)(buf_cstr(&text), text.len, &line);
	buf_byte(&line, '\n');
	fd_write_all(STDERR_FILENO, line.data, line.len);
}

void cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message("bailiff: ", true, fmt, ap);
	va_end(ap);
}

void cli_hint(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message("  ", false, fmt, ap);
	va_end(ap);
}

int cli_fail(struct cli *c, int status, const struct err *e, const char *what_fmt, ...)
{
	buf_auto struct buf what = BUF_INIT;
	va_list ap;

	va_start(ap, what_fmt);
	buf_vprintf(&what, what_fmt, ap);
	va_end(ap);
	cli_error("%s: %s", buf_cstr(&what), e->message);
	if (c && c->advice[0])
		cli_hint("%s", c->advice);
	return status;
}

int cli_usage(struct cli *c, const char *fmt, ...)
{
	buf_auto struct buf text = BUF_INIT, usage = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	cli_error("%s: %s", c->verb->name, buf_cstr(&text));
	verb_usage(c->verb, &usage);
	usage.data[usage.len - 1] = 0;
	cli_hint("%s", usage.data);
	cli_hint("bailiff help %s explains it", c->verb->name);
	return c->verb->flags & VERB_RUN ? EXIT_BAILIFF : EXIT_USAGE;
}

int cli_connect(struct cli *c, enum cli_start start)
{
	struct remote_options o = { .start = start == CLI_START_ALWAYS, .start_if_store = true };
	struct err e = ERR_INIT;

	if (remote_open(&o, &c->remote, &e) == 0)
		return 0;
	cli_error("%s: %s", c->verb->name, e.message);
	if (e.code == ERR_UNAVAILABLE && start != CLI_START_ALWAYS)
		cli_hint("bailiff run starts one; or start it with bailiffd or systemctl start bailiff");
	else if (e.code != ERR_SANDBOX) /* that message is complete: the kernel lacks a feature */
		cli_hint("bailiff doctor shows the sockets that are tried");
	return -1;
}

/* The daemon's advice is written for programs and names methods of its socket; translate it to commands. */
static void set_advice(struct cli *c, struct jval error)
{
	static const struct {
		const char *says, *instead;
	} rows[] = {
		{ "the list methods", "check the id; bailiff ps -a, bailiff session list, bailiff task list and "
				      "bailiff job list show them" },
		{ "get_health", "try again later; bailiff doctor shows what is missing" },
		{ "idempotencyKey", "use another id, or repeat the first command unchanged" },
		{ "a connection whose role", "run it as the user who owns it, or as root" },
		{ "present status", "check its status first: bailiff ps -a, or the show verb of what it belongs to" },
		{ "verify_store", "bailiff store verify names the damage; bailiff store restore brings a backup back" },
		{ "firstSequence", "older events were removed by retention; bailiff events lists the kept ones" },
	};

	jval_str(jval_path(error, "data.advice"), c->advice, sizeof(c->advice));
	if (strstr(c->advice, "list_methods"))
		snprintf(c->advice, sizeof(c->advice), "bailiff help %s explains its arguments", c->verb->name);
	for (size_t i = 0; i < countof(rows); i++)
		if (strstr(c->advice, rows[i].says))
			snprintf(c->advice, sizeof(c->advice), "%s", rows[i].instead);
}

int cli_call(struct cli *c, const char *method, const struct buf *params, struct remote_answer *ret, struct err *e)
{
	static const char terminal[] = "; start_process with tty gives it one";
	int r = remote_call(c->remote, method, params, ret, e);

	c->advice[0] = 0;
	if (r < 0 && ret->error.type != JT_NONE) {
		char *way_out = strstr(e->message, terminal);

		set_advice(c, ret->error);
		if (way_out)
			snprintf(way_out, sizeof(e->message) - (size_t)(way_out - e->message),
				 "; bailiff run -t gives it one");
	}
	return r;
}
