#ifndef BAILIFF_SUPERVISOR_PROXY_CONFINE_H
#define BAILIFF_SUPERVISOR_PROXY_CONFINE_H

struct err;

/* Gives up everything but sockets of the internet and what the resolver reads. Before the first thread. */
int proxy_sandbox_enter(struct err *e);

#endif
