#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#define countof(a) (sizeof(a) / sizeof((a)[0]))

static bool as_json(const struct cli *c) { return opts_has(&c->opts, OPT_channel_JSON); }

/* A channel made from here outlives this command, so it lives by its heartbeat. */
static int channel_connect(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_channel_PEER_ROLE, "peerRole", MEMBER_STRING },
		{ OPT_channel_PROTOCOL, "nativeProtocol", MEMBER_STRING },
		{ OPT_channel_ACCOUNT, "accountRef", MEMBER_STRING },
		{ OPT_channel_CAPABILITY, "capabilities", MEMBER_WORDS },
		{ OPT_channel_HEARTBEAT, "heartbeatMs", MEMBER_TIME },
	};
	const char *session = opts_get(&c->opts, OPT_channel_SESSION);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	int status;

	if (!opts_has(&c->opts, OPT_channel_HEARTBEAT))
		return cli_usage(c, "connect needs --heartbeat: a channel without it ends with its connection");
	if (session && id_lookup_session(c, session, id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "transport", c->opts.args[1]);
	if (session)
		jw_kstr(&w, "sessionId", id);
	if ((status = noun_verb_members(c, members, countof(members), &w)))
		return status;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "connect_channel", &params, NULL, as_json(c));
}

static int channel_list(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "CHANNEL", "channelId", COLUMN_ID },         { "STATUS", "status", COLUMN_STATUS },
		{ "TRANSPORT", "transport", COLUMN_WORD },     { "PEER", "peerRole", COLUMN_WORD },
		{ "SPEAKS", "nativeProtocol", COLUMN_WORD },   { "SESSION", "sessionId", COLUMN_ID },
		{ "ACKED", "lastAckedSequence", COLUMN_WORD }, { "SEEN", "lastSeenAt", COLUMN_AGO },
	};
	const char *session = opts_get(&c->opts, OPT_channel_SESSION);
	buf_auto struct buf filter = BUF_INIT;
	struct jw w = jw_on(&filter);
	char id[ID_LOOKUP_MAX];

	if (session && id_lookup_session(c, session, id) < 0)
		return EXIT_FAILED;
	if (session)
		jw_kstr(&w, "sessionId", id);
	return noun_verb_list(c, "list_channels", "channels", &filter, columns, countof(columns), as_json(c));
}

static int channel_show(struct cli *c)
{
	buf_auto struct buf element = BUF_INIT;

	if (noun_verb_find(c, "list_channels", "channels", "channelId", c->opts.args[1], &element) < 0)
		return EXIT_FAILED;
	return noun_verb_show(jval_of(element.data, element.len), as_json(c));
}

/* A channel, one more argument, and options that become members. */
static int change_channel(struct cli *c, const char *method, const char *shown, const char *second, bool number,
			  const struct noun_verb_member *members, size_t n)
{
	buf_auto struct buf params = BUF_INIT, element = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	int status;

	if (noun_verb_find(c, "list_channels", "channels", "channelId", c->opts.args[1], &element) < 0)
		return EXIT_FAILED;
	jval_str(jval_get(jval_of(element.data, element.len), "channelId"), id, sizeof(id));
	jw_obj(&w);
	jw_kstr(&w, "channelId", id);
	if (number && (status = noun_verb_uint(c, second, c->opts.args[2], &w)))
		return status;
	if (second && !number)
		jw_kstr(&w, second, c->opts.args[2]);
	if ((status = noun_verb_members(c, members, n, &w)))
		return status;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, method, &params, shown, as_json(c));
}

static int channel_disconnect(struct cli *c)
{
	static const struct noun_verb_member members[] = { { OPT_channel_REASON, "reason", MEMBER_STRING } };

	return change_channel(c, "disconnect_channel", "status", NULL, false, members, countof(members));
}

static int ack(struct cli *c)
{
	return change_channel(c, "ack_events", "lastAckedSequence", "sequence", true, NULL, 0);
}

static int send_message(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_channel_DIRECTION, "direction", MEMBER_STRING },
		{ OPT_channel_KIND, "kind", MEMBER_STRING },
	};

	return change_channel(c, "send_channel_message", "channelId", "message", false, members, countof(members));
}

static int channel_reconnect(struct cli *c)
{
	static const struct noun_verb_member members[] = { { OPT_channel_TOKEN, "resumeToken", MEMBER_STRING } };

	if (!opts_has(&c->opts, OPT_channel_TOKEN))
		return cli_usage(c, "reconnect needs --token: the last token that connect or reconnect printed");
	return change_channel(c, "reconnect_channel", NULL, "lastAckedSequence", true, members, countof(members));
}

int cmd_channel(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "connect", 1, 1, true, channel_connect },
		{ "list", 0, 0, false, channel_list },
		{ "show", 1, 1, false, channel_show },
		{ "disconnect", 1, 1, false, channel_disconnect },
		{ "ack", 2, 2, false, ack },
		{ "send", 2, 2, false, send_message },
		{ "reconnect", 2, 2, false, channel_reconnect },
	};

	return noun_verb_run(c, subverbs, countof(subverbs));
}
