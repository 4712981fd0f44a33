#ifndef BAILIFF_GATEWAY_GATEWAYS_H
#define BAILIFF_GATEWAY_GATEWAYS_H

/* The entry of each kind of gateway: argv[0] is its name; returns the exit status. */
#define GATEWAY(name, run) int run(int argc, char **argv);
#include "supervisor/gateway/common/gateways.def"
#undef GATEWAY

#endif
