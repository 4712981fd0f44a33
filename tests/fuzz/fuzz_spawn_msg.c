/* A message to the spawner: the first byte is how many descriptors came with it. An accepted message must be safe to
 * act on. */

#include "supervisor/spawner/spawn_msg.h"
#include "supervisor/spawner/spawner.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || spawn_msg_check(data + 1, size - 1, data[0], NULL) < 0)
		return 0;
	struct spawn_msg m;
	memcpy(&m, data + 1, sizeof m);
	const int keyless = m.kind == SPAWN_SYNC || m.kind == SPAWN_MARK || m.kind == SPAWN_PEER_FILES ||
			    m.kind == SPAWN_ANNOUNCE || m.kind == SPAWN_GRANT;
	if (!keyless && (memchr(m.key.id, '/', sizeof m.key.id) || !memchr(m.key.id, 0, sizeof m.key.id)))
		abort();
	if (m.kind == SPAWN_START) {
		int *fds = calloc(data[0], sizeof *fds); /* just as many as were announced */
		struct start_fds f;
		if (!fds)
			abort();
		start_fds_assign(&f, &m, fds);
		free(fds);
	}
	return 0;
}
