#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

static int tool_list(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "TOOL", "name", COLUMN_ID },
		{ "OWNER", "owner.kind", COLUMN_WORD },
		{ "READS", "flags.isReadOnly", COLUMN_WORD },
		{ "CONCURRENT", "flags.isConcurrencySafe", COLUMN_WORD },
		{ "DESTROYS", "flags.isDestructive", COLUMN_WORD },
		{ "DESCRIPTION", "description", COLUMN_TEXT },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct err e = ERR_INIT;

	buf_str(&params, "{}");
	if (cli_call(c, "get_tool_inventory", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "list tools");
	return noun_verb_table(jval_get(a.result, "tools"), columns, sizeof(columns) / sizeof(columns[0]),
			       opts_has(&c->opts, OPT_tool_JSON));
}

static int tool_invoke(struct cli *c)
{
	const char *turn = opts_get(&c->opts, OPT_tool_TURN), *args = c->opts.nargs > 2 ? c->opts.args[2] : "{}";
	struct jval v = jval_of(args, strlen(args));
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	if (!turn)
		return cli_usage(c, "invoke needs --turn: an open turn with text");
	if (v.type != JT_OBJECT)
		return cli_usage(c, "the arguments must be a JSON object");
	jw_obj(&w);
	jw_kstr(&w, "turnId", turn);
	jw_kstr(&w, "toolName", c->opts.args[1]);
	jw_kraw(&w, "arguments", v.text, v.len);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "invoke_tool", &params, NULL, opts_has(&c->opts, OPT_tool_JSON));
}

int cmd_tool(struct cli *c)
{
	static const struct noun_verb subverbs[] = { { "list", 0, 0, true, tool_list },
						     { "invoke", 1, 2, false, tool_invoke } };

	return noun_verb_run(c, subverbs, sizeof(subverbs) / sizeof(subverbs[0]));
}
