#include "runtime/engine/policy/git_lookup.h"

#include "runtime/base/path.h"
#include "runtime/engine/core/core.h"

int git_lookup_of(struct engine *engine, const struct git_key *at, char ret[PATH_MAX], struct err *e)
{
	struct git_key key = *at;
	char home[PATH_MAX];

	ret[0] = '\0';
	if (!engine->o.ports->git_of)
		return 0;
	if (path_clean(at->home, home, NULL) < 0)
		home[0] = '\0';
	key.home = home;
	if (key.peer_fd < 0)
		key.peer_fd = engine->o.ports->find_peer(engine->o.host, at->uid);
	int found = engine->o.ports->git_of(engine->o.host, &key, ret, e);
	/* A request that waits is rejected when the daemon stops, and must not wait again. */
	return found > 0 && engine->stopping ? err_set(e, ERR_UNAVAILABLE, "the daemon is stopping") : found;
}
