#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <string.h>

static const struct noun_verb_listing channels = { "list_channels", "channels", "channelId" };

/* The channel outlives this command, so it is kept alive by heartbeats. */
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
	return noun_verb_call(c, "connect_channel", &params, NULL, noun_verb_as_json(c));
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
	return noun_verb_list(c, "list_channels", "channels", &filter, columns, countof(columns), noun_verb_as_json(c));
}

static int channel_show(struct cli *c) { return noun_verb_show_listed(c, &channels); }

static const struct noun_verb_member disconnect_members[] = { { OPT_channel_REASON, "reason", MEMBER_STRING } };
static const struct noun_verb_member send_members[] = {
	{ OPT_channel_DIRECTION, "direction", MEMBER_STRING },
	{ OPT_channel_KIND, "kind", MEMBER_STRING },
};
static const struct noun_verb_member reconnect_members[] = { { OPT_channel_TOKEN, "resumeToken", MEMBER_STRING } };

int cmd_channel(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "connect", 1, 1, true, channel_connect },
		{ "list", 0, 0, false, channel_list },
		{ "show", 1, 1, false, channel_show },
		NOUN_REQUEST("disconnect", 1, 1, "disconnect_channel", "status", "channelId", NULL, &channels, false,
			     disconnect_members),
		{ "ack",
		  2,
		  2,
		  false,
		  NULL,
		  { "ack_events", "lastAckedSequence", { "channelId", "sequence" }, &channels, true } },
		NOUN_REQUEST("send", 2, 2, "send_channel_message", "channelId", "channelId", "message", &channels,
			     false, send_members),
		NOUN_REQUEST("reconnect", 2, 2, "reconnect_channel", NULL, "channelId", "lastAckedSequence", &channels,
			     true, reconnect_members),
	};

	if (c->opts.nargs == 3 && strcmp(c->opts.args[0], "reconnect") == 0 && !opts_has(&c->opts, OPT_channel_TOKEN))
		return cli_usage(c, "reconnect needs --token: the last token that connect or reconnect printed");
	return noun_verb_run(c, subverbs, countof(subverbs));
}
