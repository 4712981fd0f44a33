#include "supervisor/gateway/program/gateway.h"

int main(int argc, char **argv) { return gateway_main(argc, argv); }
