#include "runtime/base/buf.h"
#include "runtime/base/build.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/daemon_program.h"

static bool members_equal(struct jval own, struct jval daemon, const char *key)
{
	struct jval a = jval_get(own, key), b = jval_get(daemon, key);

	return a.len == b.len && memcmp(a.text, b.text, a.len) == 0;
}

/* Both programs are installed together; a difference explains many problems. */
static void show_both(struct jval own, struct jval daemon, struct buf *out)
{
	if (members_equal(own, daemon, "version") && members_equal(own, daemon, "build") &&
	    members_equal(own, daemon, "type")) {
		build_text("bailiff", daemon, out);
		return;
	}
	build_text("bailiff", own, out);
	build_text("bailiffd", daemon, out);
}

static void show_alone(struct jval own, const struct err *e, struct buf *out)
{
	build_text("bailiff", own, out);
	buf_printf(out, "%-14s%s\n", "bailiffd", e->message);
}

int cmd_version(struct cli *c)
{
	buf_auto struct buf own = BUF_INIT, daemon = BUF_INIT, out = BUF_INIT;
	struct err e = ERR_INIT;
	struct jw w = jw_on(&own);

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	jw_obj(&w);
	build_write(&w);
	jw_obj_end(&w);
	int r = daemon_program_describe(&daemon, &e);
	if (opts_has(&c->opts, OPT_version_JSON)) {
		struct jval whole = r == 0 ? jval_of(daemon.data, daemon.len) : (struct jval){ 0 };
		buf_append(&out, own.data, own.len - 1);
		w = (struct jw){ .buf = &out, .need_comma = true };
		if (r == 0)
			jw_kraw(&w, "daemon", whole.text, whole.len);
		else
			jw_kstr(&w, "daemonError", e.message);
		jw_obj_end(&w);
		buf_byte(&out, '\n');
	} else if (r == 0) {
		show_both(jval_of(own.data, own.len), jval_of(daemon.data, daemon.len), &out);
	} else {
		show_alone(jval_of(own.data, own.len), &e, &out);
	}
	return format_out(&out);
}
