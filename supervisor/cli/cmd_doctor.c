#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/client/home.h"
#include "supervisor/client/remote.h"
#include "supervisor/cli/show.h"

#include <string.h>
#include <unistd.h>

static int nobody(struct cli *c, const struct err *e)
{
	struct home places[HOME_PLACES];
	size_t n = home_places(getuid(), places);

	cli_error("doctor: %s", e->message);
	for (size_t i = 0; i < n; i++)
		cli_hint("looked for %s (%s; %s)", places[i].socket, places[i].kind, home_has_store(&places[i]) ? "has a store" : "no store yet");
	cli_hint("start one yourself to see why: bailiffd --foreground");
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

static enum show_colour colour_of(const char *state)
{
	return strcmp(state, "enforced") == 0 ? SHOW_GREEN : SHOW_YELLOW;
}

static void show_enforced(struct jval list, struct buf *out)
{
	static const char *const heads[] = { "THIS MACHINE", "STATE", "DETAIL" };
	struct show_table t;

	show_table_init(&t, heads, 3);
	for (struct jiter it = jiter_on(list); jiter_next(&it);) {
		char name[64], state[32], detail[256];

		jval_str(jval_get(it.value, "name"), name, sizeof(name));
		jval_str(jval_get(it.value, "state"), state, sizeof(state));
		jval_str(jval_get(it.value, "detail"), detail, sizeof(detail));
		show_table_cell(&t, SHOW_PLAIN, name);
		show_table_cell(&t, colour_of(state), state);
		show_table_cell(&t, SHOW_DIM, detail);
	}
	show_table_render(&t, show_coloured(STDOUT_FILENO), show_width(STDOUT_FILENO), out);
	show_table_done(&t);
}

/* Everything it says, and what is enforced as a table. */
static void show_health(struct jval health, struct buf *out)
{
	buf_auto struct buf rest = BUF_INIT;
	struct jw w = jw_on(&rest);
	struct jval enforces = { 0 };

	jw_obj(&w);
	for (struct jiter it = jiter_on(health); jiter_next(&it);) {
		char key[64];

		jval_str(it.key, key, sizeof(key));
		if (strcmp(key, "enforces") == 0 && it.value.type == JT_ARRAY)
			enforces = it.value;
		else
			jw_kraw(&w, key, it.value.text, it.value.len);
	}
	jw_obj_end(&w);
	show_json(jval_of(rest.data, rest.len), 2, out);
	if (enforces.type == JT_ARRAY) {
		buf_byte(out, '\n');
		show_enforced(enforces, out);
	}
}

int cmd_doctor(struct cli *c)
{
	remote_answer_auto struct remote_answer hello = REMOTE_ANSWER_INIT, health = REMOTE_ANSWER_INIT;
	bool json = opts_has(&c->opts, OPT_doctor_JSON);
	struct remote_options o = { .start = true }; /* what this machine enforces can only be told by a daemon that tried */
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
		show_health(health.result, &out);
	}
	return show_out(&out);
}
