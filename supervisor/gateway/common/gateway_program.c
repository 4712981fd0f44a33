#include "supervisor/gateway/common/gateway_program.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/autostart.h"
#include "supervisor/client/remote.h"
#include "supervisor/common/role_sandbox.h"

#include <event2/event.h>
#include <libgen.h>
#include <signal.h>
#include <string.h>

static const struct opt_row rows[] = {
#define OPTION(verb, name, letter, longname, arg, help) { #verb, letter, longname, arg, help },
#include "supervisor/client/gateway_options.def"
#undef OPTION
};

int gateway_options_parse(const char *verb, int argc, char **argv, struct gateway_options *ret, struct err *e)
{
	struct gateway_options o = { .table = { rows, countof(rows), verb, false } };

	if (opts_parse(&o.table, argc - 1, argv + 1, &o.opts, e) < 0)
		return -1;
	if (o.opts.nargs) {
		err_set(e, ERR_INVALID, "unexpected argument '%.100s'", o.opts.args[0]);
		gateway_options_done(&o);
		return -1;
	}
	*ret = o;
	return 0;
}

void gateway_options_done(struct gateway_options *o) { opts_done(&o->opts); }

const char *gateway_option(const struct gateway_options *o, const char *name)
{
	for (size_t i = o->opts.ngiven; i-- > 0;) {
		const struct opt_given *given = &o->opts.given[i];

		if (strcmp(o->table.rows[given->option].name, name) == 0)
			return given->value ? given->value : "";
	}
	return NULL;
}

int gateway_option_ms(const struct gateway_options *o, const char *name, uint64_t *ret, struct err *e)
{
	const char *text = gateway_option(o, name);

	return text && text_duration_ms(text, ret, e) < 0 ? err_wrap(e, "--%s", name) : 0;
}

int gateway_sandbox_enter(const char *readable, struct err *e)
{
	/*
	 * Allow the directory, not the file: editors and tools replace files, and a rule on the old inode would not
	 * cover the new one.
	 */
	mem_auto char *copy = readable ? mem_strdup(readable) : NULL;
	const struct role_sandbox_path own[] = {
		{ ROLE_SANDBOX_LIST, "/", -1 },
		{ ROLE_SANDBOX_READ, copy ? dirname(copy) : NULL, -1 },
	};

	if (autostart_delegate(e) < 0)
		return -1;
	return role_sandbox_enter(ROLE_SANDBOX_GATEWAY, own, countof(own), e);
}

int gateway_check_daemon(struct err *e)
{
	const struct remote_options o = { .start = true };
	struct remote *r;

	if (remote_open(&o, &r, e) < 0)
		return -1;
	remote_free(r);
	return 0;
}

void gateway_signals_add(struct event_base *base, void (*fn)(int sig, short what, void *ctx), void *ctx,
			 struct event *ret[GATEWAY_SIGNALS])
{
	static const int caught[GATEWAY_SIGNALS] = { SIGTERM, SIGINT, SIGHUP };

	for (size_t i = 0; i < GATEWAY_SIGNALS; i++) {
		ret[i] = evsignal_new(base, caught[i], fn, ctx);
		if (!ret[i])
			abort();
		loop_add(ret[i], NULL);
	}
}
