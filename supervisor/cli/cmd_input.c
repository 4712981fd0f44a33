#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/target.h"

#include <errno.h>
#include <unistd.h>

#define CHUNK (64u << 10)

/* Writes n bytes, or closes the process's stdin when n is 0. */
static int send_input(struct cli *c, const char *id, const void *p, size_t n)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	if (n) {
		jw_key(&w, "data");
		jw_base64(&w, p, n);
		jw_kstr(&w, "encoding", "base64");
	}
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, n ? "write_process_stdin" : "close_process_stdin", &params, &a, &e) == 0)
		return 0;
	return cli_fail(c, EXIT_FAILED, &e, "%s", id);
}

int cmd_input(struct cli *c)
{
	mem_auto char *chunk = mem_alloc(CHUNK);
	char id[TARGET_ID_MAX];

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || target_process(c, c->opts.args[0], id) < 0)
		return EXIT_FAILED;
	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			cli_error("input: read stdin: %s", strerror(errno));
			return EXIT_FAILED;
		}
		if (n == 0)
			break;
		if (send_input(c, id, chunk, (size_t)n))
			return EXIT_FAILED;
	}
	return opts_has(&c->opts, OPT_input_EOF) ? send_input(c, id, NULL, 0) : 0;
}
