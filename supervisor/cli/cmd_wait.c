#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/client/remote.h"

int cmd_wait(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct exit_status outcome;
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || id_lookup_process(c, c->opts.args[0], id) < 0)
		return EXIT_BAILIFF;
	jw_obj(&w);
	jw_kstr(&w, "processId", id);
	jw_obj_end(&w);
	if (cli_call(c, "wait_process", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_BAILIFF, &e, "%s", id);
	if (!exit_status_of_process(a.result, &outcome)) {
		cli_error("%s: the daemon's reply has no exit status", id);
		return EXIT_BAILIFF;
	}
	if (outcome.note[0])
		cli_error("%s: %s", id, outcome.note);
	print_autorun(jval_get(a.result, "autorun"), id, jval_bool(jval_get(a.result, "cow"), false));
	return outcome.status;
}
