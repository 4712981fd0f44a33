#ifndef BAILIFF_SUPERVISOR_PROXY_ACCESS_CHECK_H
#define BAILIFF_SUPERVISOR_PROXY_ACCESS_CHECK_H

/*
 * Checks the bytes of a client against the rules of its sandbox. The first two functions are steps of the relay: they
 * consume as many of the client's bytes as they can. They return true to continue with the next state, and false to
 * wait for more bytes or after they have closed the connection.
 */

#include <stdbool.h>

struct connection;

bool access_check_first_bytes(struct connection *c); /* a tunnel's first bytes: TLS, HTTP or another protocol */
bool access_check_http(struct connection *c);        /* the head of an unencrypted request */
bool access_check_target(struct connection *c);      /* by name or address; false: denied, and the reply is sent */

#endif
