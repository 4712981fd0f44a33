#ifndef BAILIFF_FLEET_BUCKET_H
#define BAILIFF_FLEET_BUCKET_H

/*
 * Reads KV buckets with two requests of the JetStream protocol: the list of subjects, and the last message of one.
 *
 * Not with a consumer, as libnats' watcher does: the server sends what a consumer delivers to any subject that its
 * creator names, so clients had to be trusted with that. Nor with direct gets: their answers are the stored message as
 * it is, and the server sends them to any subject as well, even into another stream.
 */

#include "supervisor/fleet/fleet_port.h"

#include <nats/nats.h>

struct buf;
struct err;
struct fleet_creds;

/* The server's wall clock, in ms, when it stored the entry. 1: there is none. */
int bucket_stored_at(jsCtx *js, const char *bucket, const char *key, uint64_t *ret, struct err *e);
/* 1: there is no entry; *ret_revision is then that of its deletion mark, or 0. */
int bucket_get(jsCtx *js, const char *bucket, const char *key, struct buf *ret, uint64_t *ret_revision, struct err *e);

/* Every entry once. */
int bucket_list(natsConnection *nc, jsCtx *js, const struct fleet_creds *creds, const char *bucket, fleet_entry_fn fn,
		void *ctx, struct err *e);

#endif
