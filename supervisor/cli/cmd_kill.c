#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

struct victim {
	char id[ID_LOOKUP_MAX];
	bool found;
	struct remote_answer answer;
};

static void send_kill(struct cli *c, struct victim *v, const char *sig)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", v->id);
	if (sig)
		jw_kstr(&w, "signal", sig);
	else
		jw_kstr(&w, "reason", "user");
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	remote_send(c->remote, sig ? "signal_process" : "terminate_process", &params, remote_answer_fill, &v->answer);
}

int cmd_kill(struct cli *c)
{
	const char *sig = opts_get(&c->opts, OPT_kill_SIGNAL);
	size_t n = c->opts.nargs;
	int status = 0;

	if (n == 0)
		return cli_usage(c, "which process?");
	if (sig && text_signal_number(sig) <= 0)
		return cli_usage(c, "option '--signal': '%s' is not a signal", sig);
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	/* Request all terminations before waiting for any: each may take its grace time. */
	struct victim *victims = mem_zalloc(n, sizeof(*victims));
	for (size_t i = 0; i < n; i++) {
		victims[i].found = id_lookup_process(c, c->opts.args[i], victims[i].id) == 0;
		if (victims[i].found)
			send_kill(c, &victims[i], sig);
		else
			status = EXIT_FAILED;
	}
	for (size_t i = 0; i < n; i++) {
		struct err e = ERR_INIT;

		if (victims[i].found && remote_await(c->remote, &victims[i].answer, &e) < 0)
			status = cli_fail(c, EXIT_FAILED, &e, "%s", victims[i].id);
	}
	for (size_t i = 0; i < n; i++)
		remote_answer_done(&victims[i].answer);
	free(victims);
	return status;
}
