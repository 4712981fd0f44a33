#ifndef BAILIFF_CLI_SANDBOX_OPTIONS_H
#define BAILIFF_CLI_SANDBOX_OPTIONS_H

/*
 * The members `cwd`, `profile` and `sandbox` of a request, from a verb's options. The command line runs as the user and
 * can read paths that the daemon cannot, so it determines the workspace.
 */

struct err;
struct jw;
struct opts;

/* The verb's options (OPT_…); profile −1 = none. */
struct sandbox_options {
	int profile, cwd, ro, rw, hide, net, hosts, tmp;
};

int sandbox_options_write(const struct opts *o, const struct sandbox_options *names, struct jw *w, struct err *e);

#endif
