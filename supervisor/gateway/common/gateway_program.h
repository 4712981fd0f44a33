#ifndef BAILIFF_GATEWAY_PROGRAM_H
#define BAILIFF_GATEWAY_PROGRAM_H

/*
 * What every gateway does at startup: its command line, from the rows of supervisor/client/gateway_options.def; the
 * check for a daemon; its sandbox; its signals.
 */

#include "runtime/base/opts.h"

#include <stdint.h>

struct err;
struct event;
struct event_base;

struct gateway_options {
	struct opt_table table;
	struct opts opts;
};

/* `verb` is the first column of the rows. An argument that is not an option is ERR_INVALID. Strings point into argv. */
int gateway_options_parse(const char *verb, int argc, char **argv, struct gateway_options *ret, struct err *e);
void gateway_options_done(struct gateway_options *o);
#define gateway_options_auto __attribute__((cleanup(gateway_options_done)))

/*
 * The value of an option by its long name, "" for a flag. NULL if the option was not given or the verb does not have
 * it. The last occurrence wins.
 */
const char *gateway_option(const struct gateway_options *o, const char *name);
/* Parses a duration. *ret is unchanged if the option was not given. */
int gateway_option_ms(const struct gateway_options *o, const char *name, uint64_t *ret, struct err *e);

/*
 * Enters the sandbox in which every gateway serves (supervisor/common/role_sandbox.h): it cannot create processes,
 * execute programs, write files, or open sockets other than those to the daemon; sockets that already listen stay
 * usable. Directories can be listed everywhere, because clients name workspaces. `readable`, a file or NULL, is
 * readable together with its directory.
 *
 * Call it before serving. It first forks a launcher, outside the sandbox, that can still start a daemon
 * (supervisor/client/autostart.h).
 */
int gateway_sandbox_enter(const char *readable, struct err *e);

/* Connects to the daemon once, starting it if necessary: a gateway fails at startup rather than at the first call. */
int gateway_check_daemon(struct err *e);

#define GATEWAY_SIGNALS 3
/* Calls fn for SIGTERM, SIGINT and SIGHUP. The caller frees the events. */
void gateway_signals_add(struct event_base *base, void (*fn)(int sig, short what, void *ctx), void *ctx,
			 struct event *ret[GATEWAY_SIGNALS]);

/* The entry of each kind of gateway: argv[0] is its name; returns the exit status. */
#define GATEWAY(name, run) int run(int argc, char **argv);
#include "supervisor/gateway/common/gateways.def"
#undef GATEWAY

#endif
