#include "supervisor/fleet/seen_requests.h"

#include "runtime/base/hash.h"

#include <string.h>

bool seen_requests_repeats(struct seen_requests *s, uint64_t time, const char *nonce)
{
	const uint64_t hash = hash64(nonce, strlen(nonce), 0);
	size_t lowest = 0;

	if (time <= s->forgotten)
		return true;
	for (size_t i = 0; i < SEEN_REQUESTS_MAX; i++) {
		if (s->seen[i].time == time && s->seen[i].nonce == hash)
			return true;
		if (s->seen[i].time < s->seen[lowest].time)
			lowest = i;
	}
	if (time <= s->seen[lowest].time) { /* it is the one to forget */
		s->forgotten = time;
		return false;
	}
	s->forgotten = s->seen[lowest].time;
	s->seen[lowest].time = time;
	s->seen[lowest].nonce = hash;
	return false;
}
