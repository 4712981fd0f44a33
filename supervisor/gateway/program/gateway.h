#ifndef BAILIFF_GATEWAY_GATEWAY_H
#define BAILIFF_GATEWAY_GATEWAY_H

/*
 * bailiff-gateway: other people's protocols, translated into the control socket's methods.
 *
 * A gateway is a client of the daemon like the command line is. It runs as the user who started it, who is who the
 * kernel says it is; it never is part of the daemon, so that whatever bytes a peer sends, they reach no privileged
 * program. Each kind of gateway is a row of gateways.def and a folder of its own, built of what lies here:
 *
 *   line_stream   lines of JSON from one descriptor and to another, bounded in both directions
 *   rpc_message   one message of JSON-RPC, in any dialect
 *   session       what one client of ours has at the daemon: a connection with the role agent, a channel, a session,
 *                 its events
 *
 * The program is executed by the verbs of the command line: `bailiff mcp …` becomes `bailiff-gateway mcp …` with the
 * options as they were given, after the command line has checked their names.
 */

/* The program: runs the gateway that argv[1] names. Returns the exit status. */
int gateway_main(int argc, char **argv);

#endif
