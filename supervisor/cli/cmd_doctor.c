#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/home.h"
#include "supervisor/cli/remote.h"
#include "supervisor/cli/show.h"

#include <unistd.h>

static int nobody(struct cli *c, const struct err *e)
{
	struct home places[HOME_PLACES];
	size_t n = home_places(getuid(), places);

	cli_error("doctor: %s", e->message);
	for (size_t i = 0; i < n; i++)
		cli_hint("looked for %s (%s; %s)", places[i].socket, places[i].kind, home_has_store(&places[i]) ? "has a store" : "no store yet");
	cli_hint("bailiff run starts one, or start it yourself: bailiffd, or systemctl start bailiff");
	return EXIT_FAILED;
}

static void about(struct cli *c, struct jval hello, bool json, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);
	struct jval version = jval_get(hello, "serverVersion"), role = jval_get(hello, "role");

	jw_obj(&w);
	jw_kstr(&w, "kind", remote_kind(c->remote));
	jw_kstr(&w, "socket", remote_socket_path(c->remote));
	jw_kint(&w, "pid", remote_peer_pid(c->remote));
	if (version.type == JT_STRING)
		jw_kraw(&w, "version", version.text, version.len);
	if (role.type == JT_STRING)
		jw_kraw(&w, "role", role.text, role.len);
	jw_kuint(&w, "uid", getuid());
	jw_kstr(&w, "clientVersion", BAILIFF_VERSION);
	jw_obj_end(&w);
	if (json) {
		buf_append(out, text.data, text.len);
	} else {
		buf_str(out, "daemon:\n");
		show_json(jval_of(text.data, text.len), 2, out);
	}
}

int cmd_doctor(struct cli *c)
{
	remote_answer_auto struct remote_answer hello = REMOTE_ANSWER_INIT, health = REMOTE_ANSWER_INIT;
	bool json = opts_has(&c->opts, OPT_doctor_JSON);
	struct remote_options o = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	if (c->opts.nargs)
		return cli_usage(c, "'%s' is one argument too many", c->opts.args[0]);
	if (remote_open(&o, &c->remote, &e) < 0)
		return nobody(c, &e);
	if (cli_call(c, "initialize", NULL, &hello, &e) < 0 || cli_call(c, "get_health", NULL, &health, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "doctor");
	if (json) {
		buf_str(&out, "{\"daemon\":");
		about(c, hello.result, true, &out);
		buf_str(&out, ",\"health\":");
		buf_append(&out, health.result.text, health.result.len);
		buf_str(&out, "}\n");
	} else {
		about(c, hello.result, false, &out);
		buf_str(&out, "health:\n");
		show_json(health.result, 2, &out);
	}
	return show_out(&out);
}
