#ifndef BAILIFF_FLEET_CLIENT_MAIN_H
#define BAILIFF_FLEET_CLIENT_MAIN_H

/* `bailiff fleet …`: the command line is passed on as it is. Returns the exit status. */
int client_main(int argc, char **argv);

#endif
