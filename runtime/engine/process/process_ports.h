#ifndef BAILIFF_ENGINE_PROCESS_PORTS_H
#define BAILIFF_ENGINE_PROCESS_PORTS_H

/*
 * Published ports: TCP ports of a process's sandbox that are reachable on the host, through the proxy, until they are
 * unpublished or the process ends. Also the ports on which the sandbox listens, as its init reports them. For a session
 * sandbox the process is its holder.
 *
 * port.published and port.closed carry the list of all open ones, which is a member of the process's document: after a
 * restart of the runtime they are published again on the same host ports. The proxy keeps their connections meanwhile.
 */

#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"

struct jval;
struct jw;
struct process;
struct transaction;

/* Without a network of its own no port can be published. */
bool process_has_host_network(const struct process *p);
/* Notes the ports that are to be published before the command runs; −1 if that is not possible. */
int process_ports_want(struct process *p, const struct start_request *r, struct err *e);
void process_ports_write_wanted(struct jw *w, const void *process, size_t n);
/*
 * Publishes them. 0: port.published is durable for all of them; 1: an event PROCESS_EV_READY follows; −1: one cannot be
 * published (ports_failure).
 */
int process_ports_pass(struct process *p);
/* A running process. Replies {processId, port, hostAddress, hostPort} when the host listens. */
void process_ports_publish(struct process *p, const struct port_publication *given, const struct caller *c,
			   engine_reply_fn fn, void *ctx);
/* Replies when all connections are closed. */
void process_ports_unpublish(struct process *p, uint16_t port, const struct caller *c, engine_reply_fn fn, void *ctx);
/* {"ports":[…]}: published and listening ports of one process (NULL = of all), of this uid (VIEW_ANY_UID = of all). */
void engine_list_ports(struct engine *engine, const char *process_id, uint32_t uid, struct buf *out);

/* Recovery: takes the list from the document; later publishes all of it again. */
void process_ports_take(struct process *p, struct jval list);
void process_ports_resume(struct process *p);
/* The process has ended: adds port.closed for each. */
void process_ports_end(struct process *p, struct transaction *tx);
void process_ports_free(struct process *p); /* rejects requests that still wait */

#endif
