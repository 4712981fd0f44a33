#include "supervisor/cli/approval_verbs.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <stdio.h>
#include <string.h>

/* Resolves an id: complete, or a prefix or suffix of an open action's id. */
static int target_action(struct cli *c, const char *given, char ret[ID_LOOKUP_MAX])
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	size_t n = strlen(given), found = 0;
	struct err e = ERR_INIT;

	snprintf(ret, ID_LOOKUP_MAX, "%s", given);
	if (strncmp(given, "act_", 4) == 0 && n == 30)
		return 0;
	buf_str(&params, "{\"status\":\"pending\",\"limit\":1000}");
	if (cli_call(c, "list_actions", &params, &a, &e) < 0)
		return cli_fail(c, -1, &e, "%s", given);
	for (struct jiter it = jiter_on(jval_get(a.result, "actions")); jiter_next(&it);) {
		char id[ID_LOOKUP_MAX];
		size_t len = jval_str(jval_get(it.value, "actionId"), id, sizeof(id));

		if (strncmp(id, given, n) == 0 || (len > 4 && strncmp(id + 4, given, n) == 0) ||
		    (n >= 4 && len >= n && strcmp(id + len - n, given) == 0)) {
			found++;
			memcpy(ret, id, sizeof(id));
		}
	}
	if (found == 1)
		return 0;
	cli_error(found ? "'%s' is ambiguous" : "no open action matches '%s'", given);
	cli_hint("bailiff pending lists them");
	return -1;
}

int approval_answer(struct cli *c, const char *decision, const struct approval_options *o)
{
	const char *other = opts_get(&c->opts, o->decision);
	int status = 0;

	if (c->opts.nargs == 0)
		return cli_usage(c, "which action?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	for (size_t i = 0; i < c->opts.nargs; i++) {
		buf_auto struct buf params = BUF_INIT;
		struct jw w = jw_on(&params);
		char id[ID_LOOKUP_MAX];

		if (target_action(c, c->opts.args[i], id) < 0) {
			status = EXIT_FAILED;
			continue;
		}
		jw_obj(&w);
		jw_kstr(&w, "actionId", id);
		jw_kstr(&w, "decision", other ? other : decision);
		jw_kopt(&w, "note", opts_get(&c->opts, o->note));
		if (opts_has(&c->opts, o->always) || opts_has(&c->opts, o->session))
			jw_kstr(&w, "scope", opts_has(&c->opts, o->always) ? "always" : "session");
		remote_key(c->remote, &w);
		jw_obj_end(&w);
		if (noun_verb_call(c, "respond_action", &params, "decision", opts_has(&c->opts, o->json)) != 0)
			status = EXIT_FAILED;
	}
	return status;
}
