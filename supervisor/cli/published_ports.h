#ifndef BAILIFF_CLI_PUBLISHED_PORTS_H
#define BAILIFF_CLI_PUBLISHED_PORTS_H

/* Ports of sandboxes on this host, as the command line names them. */

#include "supervisor/cli/cli.h"

/* Whether all values of an option --publish are valid. */
int published_ports_check(const struct opts *o, int option, struct err *e);
/* Of a sandbox that exists. −1 after printing why. */
int published_ports_open(struct cli *c, int option, const char *sandbox_id);
/* Writes them as the member `publish` of a request. */
int published_ports_write(const struct opts *o, int option, struct jw *w, struct err *e);

#endif
