#include "supervisor/gateway/mcp/mcp_roots.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/file_uri.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROOTS_MS 10000u /* the client answers without asking its user */

void mcp_roots_forget(struct mcp_session *m)
{
	free(mem_take(&m->root));
	m->roots_known = false;
}

/* The first root that is a usable directory on this machine; NULL if there is none. */
static char *usable_root(const json_t *answer)
{
	char path[PATH_MAX];
	struct stat st;
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(answer, "roots"), i, one) {
		const char *uri = json_get_string(one, "uri");
		struct err ignored = ERR_INIT;

		if (uri && strlen(uri) == json_string_length(json_object_get(one, "uri")) &&
		    file_uri_path(uri, path, &ignored) == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
		    mcp_workspace_is_tree(path))
			return mem_strdup(path);
	}
	return NULL;
}

static void on_roots(struct mcp_call *c)
{
	struct mcp_call_private *p = c->priv;
	char *root = usable_root(mcp_call_answer(c, "roots"));

	mcp_question_done(p); /* later questions are separate */
	p->ask_ms = 0;
	if (p->era == MCP_MODERN) {
		p->root = root;
	} else {
		mcp_roots_forget(c->mcp);
		c->mcp->root = root;
		c->mcp->roots_known = true;
		if (root)
			gateway_session_retitle(c->up, root);
	}
	p->roots_then(c);
}

void mcp_roots_then(struct mcp_call *c, mcp_call_fn then)
{
	struct mcp_call_private *p = c->priv;
	const struct mcp_config *config = mcp_session_config(c->mcp);
	const char *kept = json_get_string(c->kept, MCP_ROOT);

	if (kept)
		p->root = mem_strdup(kept);
	if (config->cwd || (!config->away && mcp_workspace_has_tree(c)) || kept || mcp_call_approving(c) ||
	    (p->era == MCP_LEGACY && c->mcp->roots_known) || !mcp_call_can(c, "roots")) {
		then(c);
		return;
	}
	p->roots_then = then;
	p->ask_ms = ROOTS_MS;
	mcp_call_question(c, "roots", "roots/list", json_object());
	mcp_call_ask(c, NULL, on_roots);
}
