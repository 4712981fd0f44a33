#ifndef BAILIFF_FLEET_NODE_REQUESTS_H
#define BAILIFF_FLEET_NODE_REQUESTS_H

/*
 * What clients ask of this node about tasks that run or ran here: output, diff, evidence and cancel.
 *
 * Everything in a request comes from the bus. A request is answered if its key is a submitter of this node, its
 * signature is valid, it was made recently and was not seen before, and the daemon's own record names the key as the
 * task's submitter (or the key may operate). The document on the bus only says which claim is meant: someone who can
 * write it still gets no one else's output.
 *
 * A reply is a line {"ok":true,"next":…,"end":…} and then bytes, or {"ok":false,"error":…}.
 */

struct event_link;
struct fleet_node;

/* Answers the requests that have arrived, a few at a time. Blocks for the daemon's answers. */
void node_requests_serve(struct fleet_node *n, struct event_link *link);

#endif
