#ifndef BAILIFF_SUPERVISOR_PROXY_DIAL_H
#define BAILIFF_SUPERVISOR_PROXY_DIAL_H

struct connection;

/* Resolves the connection's target if it is a name, checks the addresses and connects to the first that works. */
void dial_begin(struct connection *c);
/* Tries the next address; error: why the previous one failed, or 0. */
void dial_next(struct connection *c, int error);

#endif
