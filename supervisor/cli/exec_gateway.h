#ifndef BAILIFF_CLI_EXEC_GATEWAY_H
#define BAILIFF_CLI_EXEC_GATEWAY_H

struct cli;

/*
 * Executes bailiff-gateway, found next to this program or in ../libexec/bailiff: gateways parse untrusted input and
 * need an event loop, which the command line should not contain. `name` is the kind (gateways.def); the verb's options
 * are passed on. Returns only on failure, with the exit status.
 */
int exec_gateway(struct cli *c, const char *name);

#endif
