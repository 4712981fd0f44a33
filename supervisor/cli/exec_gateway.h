#ifndef BAILIFF_CLI_EXEC_GATEWAY_H
#define BAILIFF_CLI_EXEC_GATEWAY_H

struct cli;

/*
 * Becomes bailiff-gateway, found beside this program or in ../libexec/bailiff: gateways read what strangers send and
 * need an event loop, neither of which belongs into the command line. `name` is the kind (gateways.def); the verb's
 * options go along as they were given. Returns only if that fails, with the exit status.
 */
int exec_gateway(struct cli *c, const char *name);

#endif
