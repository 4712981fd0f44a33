#ifndef BAILIFF_GATEWAY_GATEWAY_H
#define BAILIFF_GATEWAY_GATEWAY_H

/*
 * bailiff-gateway: translates other protocols to the methods of the control socket.
 *
 * A gateway is a client of the daemon, like the command line. It runs as the user who started it and is never part of
 * the daemon, so that input from a peer reaches no privileged program. Each kind of gateway is a row of
 * common/gateways.def and a folder, and uses common/:
 *
 *   line_stream   lines of JSON from one descriptor and to another, bounded in both directions
 *   rpc_message   one JSON-RPC message, in either dialect
 *   gateway_session  the connection to the daemon: role agent, a channel, a session, its events
 *
 * The verbs of the command line execute this program: `bailiff mcp …` becomes `bailiff-gateway mcp …` with the same
 * options, after the command line has checked their names.
 */

/* Runs the gateway that argv[1] names. Returns the exit status. */
int gateway_main(int argc, char **argv);

#endif
