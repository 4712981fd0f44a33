#include "runtime/base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void random_bytes(void *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t r = getrandom((char *)p + have, n - have, 0);

		if (r < 0 && errno != EINTR)
			abort();
		if (r > 0)
			have += (size_t)r;
	}
}
