#ifndef BAILIFF_GATEWAY_GATEWAY_H
#define BAILIFF_GATEWAY_GATEWAY_H

/*
 * bailiff-gateway: translates other protocols to the methods of the control socket.
 *
 * A gateway is a client of the daemon like the command line. It runs as the user who started it and is never part of
 * the daemon, so that the bytes of a peer reach no privileged program. Each kind of gateway is a row of
 * common/gateways.def and a folder, and uses what is in common/:
 *
 *   line_stream   lines of JSON from one descriptor and to another, bounded in both directions
 *   rpc_message   one message of JSON-RPC, in any dialect
 *   gateway_session  a client's side of the daemon: a connection with the role agent, a channel, a session, its events
 *
 * The program is executed by the verbs of the command line: `bailiff mcp …` becomes `bailiff-gateway mcp …` with the
 * options as they were given, after the command line has checked their names.
 */

/* The program: runs the gateway that argv[1] names. Returns the exit status. */
int gateway_main(int argc, char **argv);

#endif
