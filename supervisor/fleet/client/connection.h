#ifndef BAILIFF_FLEET_CLIENT_CONNECTION_H
#define BAILIFF_FLEET_CLIENT_CONNECTION_H

/* A verb's connection to the fleet: the bus, this user's key, tasks by their ids, and signed requests to nodes. */

#include "runtime/base/buf.h"
#include "supervisor/fleet/client/settings.h"
#include "supervisor/fleet/fleet_doc.h"
#include "supervisor/fleet/fleet_port.h"

struct cli;

struct connection {
	struct cli *cli;
	struct fleet_settings settings;
	struct fleet_port *port;
	char class[FLEET_CLASS_TEXT]; /* the class and priority that were stored last */
	unsigned priority;
};
#define connection_auto __attribute__((cleanup(connection_done)))
void connection_done(struct connection *x);
/* `signs`: the verb needs a key. 0, or the exit status after an error. */
int connection_open(struct cli *c, bool signs, struct connection *ret);

/* A task as it is on the bus now. Its signature is verified: a document that nobody signed is an error. */
struct fleet_entry {
	struct fleet_task task;
	uint64_t revision;
};
#define fleet_entry_auto __attribute__((cleanup(fleet_entry_done)))
void fleet_entry_done(struct fleet_entry *t);
/* 1: there is none. */
int connection_get(struct connection *x, const char *id, struct fleet_entry *ret, struct err *e);

/* Tasks, in the order of their submission. Those that cannot be read or are not signed are left out and counted. */
struct fleet_entries {
	struct fleet_entry *v;
	size_t n, invalid;
};
#define fleet_entries_auto __attribute__((cleanup(fleet_entries_done)))
void fleet_entries_done(struct fleet_entries *l);
/* group NULL: all. */
int connection_list(struct connection *x, const char *group, struct fleet_entries *ret, struct err *e);

/*
 * The tasks that the arguments after the verb name: ids, their unique beginnings, or jobs, which stand for all their
 * tasks. 0, or the exit status after an error.
 */
int connection_find(struct connection *x, bool jobs, struct fleet_entries *ret);

/*
 * Asks the node of a task. args: members of a JSON object, or NULL. The reply's header in ret_header, its bytes in
 * ret_bytes. 1: the node does not answer. −1: the bus failed, or the node rejected it.
 */
int connection_ask(struct connection *x, const struct fleet_task *t, const char *verb, const char *args,
		   struct buf *ret_header, struct buf *ret_bytes, struct err *e);

#endif
