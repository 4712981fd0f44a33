/* bailiff-fleet: a client of the fleet, or with --node the process that the guard starts for a node. */

#include "supervisor/fleet/client_main.h"

int main(int argc, char **argv) { return client_main(argc, argv); }
