#ifndef BAILIFF_ENGINE_TURN_OWNER_H
#define BAILIFF_ENGINE_TURN_OWNER_H

/*
 * The client that drives a turn: its connection, its lease, and the deadline for a takeover. Only turns driven by a
 * client are tracked, and only if they have a lease or turn_grace_ms is set. turn_owner.c explains the rules.
 */

#include "runtime/engine/core/reply.h"
#include "runtime/view/view_documents.h"

struct engine;

struct turn_owner {
	uint64_t connection;  /* 0 = disconnected, or its lease has expired */
	uint64_t period_ns;   /* how long it may be silent before the turn is stalled, and again before it is lost */
	uint64_t deadline_ns; /* if disconnected or leased */
	bool leased;          /* the client must use the turn; being connected is not enough */
	char channel_id[ID_SIZE]; /* or "" */
};

/*
 * A request about the turn came from this connection, which now drives it (0 = none: others may take it over). −1 with
 * e: another client holds the lease.
 */
int turn_owner_seen(struct engine *engine, const struct turn_doc *t, uint64_t connection, const char *channel_id,
		    struct err *e);
/*
 * Reads the turn of a caller's request inside of it: it must have started and not ended. The request makes the caller's
 * connection the turn's driver.
 */
int turn_open_of_caller(struct engine *engine, const char *turn_id, const struct caller *c, struct buf *text,
			struct turn_doc *ret, struct err *e);
void turn_owner_forget(struct engine *engine, const char *turn_id); /* the turn has ended */
void turn_owner_disconnected(struct engine *engine, uint64_t connection);

struct turn_owner *turn_owner_of(struct engine *engine, const char *turn_id); /* or NULL */
/* Starts the period (again). */
void turn_owner_renew(struct engine *engine, struct turn_owner *d);
/* Turns that no client has taken over in time. The caller frees `id`. Returns the next deadline. */
struct turn_owners_due {
	char (*id)[ID_SIZE];
	size_t count;
};
uint64_t turn_owners_due(struct engine *engine, uint64_t now, struct turn_owners_due *ret);

#endif
