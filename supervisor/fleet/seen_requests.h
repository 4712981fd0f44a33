#ifndef BAILIFF_FLEET_SEEN_REQUESTS_H
#define BAILIFF_FLEET_SEEN_REQUESTS_H

/*
 * The latest requests of one submitter, by time and nonce, so that none is answered twice. Times are those of its
 * clients, whose clocks may differ. The request with the lowest time is forgotten first, and what is not newer than a
 * forgotten one counts as repeated. There is space for more than clients usually make within the difference of their
 * clocks; otherwise the one whose clock is behind would be rejected because of the requests of the other.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEEN_REQUESTS_MAX 16384u

/* Zeroed memory is an empty one. */
struct seen_requests {
	struct {
		uint64_t time, nonce; /* nonce: its hash; 64 bits of random numbers do not collide */
	} seen[SEEN_REQUESTS_MAX];
	uint64_t forgotten;
};

/* Remembers the request. True: it was made before, or may have been. */
bool seen_requests_repeats(struct seen_requests *s, uint64_t time, const char *nonce);

#endif
