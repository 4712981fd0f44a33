#include "supervisor/fleet/client_main.h"

#include <stdio.h>

int client_main(int argc, char **argv)
{
	fprintf(stderr, "bailiff-fleet: this build has no client\n");
	return 2;
}
