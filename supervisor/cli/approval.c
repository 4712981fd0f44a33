#include "supervisor/cli/approval.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/policy_explanation.h"

#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#define CTRL_C 3
#define POLL_MS 1000 /* between two checks whether another client has answered */

int approval_terminal(void)
{
	fd_auto int fd = isatty(STDERR_FILENO) ? open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY) : -1;

	return fd >= 0 && tcgetpgrp(fd) == getpgrp() ? fd_take(&fd) : -1;
}

/* Line mode, in which Ctrl-C ends the line instead of raising a signal. */
static void enter_line_mode(int terminal, struct termios *ret_old)
{
	struct termios mode;

	(void)tcgetattr(terminal, ret_old);
	mode = *ret_old;
	mode.c_lflag |= ICANON | ECHO | ECHOE | ECHOK;
	mode.c_lflag &= ~(tcflag_t)ISIG;
	mode.c_iflag |= ICRNL;
	mode.c_oflag |= OPOST | ONLCR;
	mode.c_cc[VEOL] = CTRL_C;
	(void)tcsetattr(terminal, TCSAFLUSH, &mode);
}

int approval_read(int terminal, const char *text, const char *prompt, bool (*gone)(void *ctx), void *ctx,
		  char line[APPROVAL_LINE_MAX])
{
	struct pollfd p = { .fd = terminal, .events = POLLIN };
	buf_auto struct buf out = BUF_INIT;
	struct termios old;
	int ready;

	enter_line_mode(terminal, &old);
	text_sanitize(text, strlen(text), &out);
	buf_printf(&out, "%s%s", out.len ? "\n" : "", prompt);
	(void)fd_write_all(terminal, out.data, out.len);
	while ((ready = poll(&p, 1, gone ? POLL_MS : -1)) <= 0 && !(ready == 0 && gone && gone(ctx)))
		;
	ssize_t n = ready > 0 ? read(terminal, line, APPROVAL_LINE_MAX - 1) : 0;
	/* The rest of a line that is too long is dropped. */
	(void)tcsetattr(terminal, TCSAFLUSH, &old);
	if (ready == 0) {
		(void)fd_write_all(terminal, "\n", 1);
		return 1;
	}
	if (n <= 0 || line[n - 1] == CTRL_C) {
		(void)fd_write_all(terminal, "\n", 1);
		return -1;
	}
	line[n] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	return 0;
}

struct open_action {
	struct cli *cli;
	const char *action_id;
};

/* Unknown counts as open: the answer then fails with the reason. */
static bool is_answered(void *ctx)
{
	struct open_action *a = ctx;
	buf_auto struct buf action = BUF_INIT;

	return id_read_element(a->cli, ID_ACTION, a->action_id, &action) == 0 &&
	       !jval_is_str(jval_get(jval_of(action.data, action.len), "status"), "pending");
}

static bool is_word(const char *line, const char *letter, const char *word)
{
	return strcmp(line, letter) == 0 || strcmp(line, word) == 0;
}

/* 0: answered; 1: the daemon rejected the answer, so another one may be given; −1: it cannot be reached. */
static int send_answer(struct cli *c, const char *action_id, const char *scope)
{
	request_auto struct request q = REQUEST_INIT(q);

	jw_kstr(&q.w, "actionId", action_id);
	jw_kstr(&q.w, "decision", scope ? "allow" : "deny");
	jw_kopt(&q.w, "scope", scope);
	if (request_change(c, &q, "respond_action") == 0)
		return 0;
	cli_fail(c, 0, &q.e, "answer");
	if (q.e.code == ERR_STATE)
		return 0; /* another client was faster */
	return q.answer.error.type == JT_NONE ? -1 : 1;
}

int approval_ask(struct cli *c, int terminal, const char *action_id, const char *prompt)
{
	struct open_action action = { c, action_id };
	buf_auto struct buf element = BUF_INIT;
	mem_auto char *own = NULL;

	if (!prompt && id_read_element(c, ID_ACTION, action_id, &element) == 0) {
		struct jval action_now = jval_of(element.data, element.len);

		if (!jval_is_str(jval_get(action_now, "status"), "pending"))
			return 0; /* answered meanwhile */
		prompt = own = jval_strdup(jval_get(action_now, "prompt"));
	}
	for (;;) {
		char line[APPROVAL_LINE_MAX];
		int r = approval_read(terminal, prompt ? prompt : "",
				      "[y]es once  [s]ession  [a]lways  [n]o  [e]xplain: ", is_answered, &action, line);
		if (r)
			return r < 0 ? 1 : 0;
		const char *scope = is_word(line, "y", "yes")       ? "once"
				    : is_word(line, "s", "session") ? "session"
				    : is_word(line, "a", "always")  ? "always"
								    : NULL;

		if (scope || is_word(line, "n", "no")) {
			r = send_answer(c, action_id, scope);
			if (r <= 0)
				return r;
		}
		if (is_word(line, "e", "explain")) {
			buf_auto struct buf out = BUF_INIT;

			if (policy_explanation(c, action_id, &out) == 0)
				(void)fd_write_all(terminal, out.data, out.len);
		}
	}
}
