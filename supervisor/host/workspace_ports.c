#include "supervisor/host/workspace_ports.h"

#include "supervisor/host/git_search.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/workspace_policy.h"

int workspace_port_policy(void *host, const struct policy_key *at, const struct policy_rules **ret, struct err *e)
{
	struct host_ports *w = host;

	return workspace_policies_of(w->workspaces, at, ret, e);
}

void workspace_port_repos(void *host, uint32_t uid, const char *workspace, struct buf *nested, struct buf *git)
{
	struct host_ports *w = host;

	workspace_policies_repos(w->workspaces, uid, workspace, nested, git);
}

const struct policy_rules *workspace_port_rules(void *host, uint32_t uid, const char *workspace)
{
	struct host_ports *w = host;

	return workspace_policies_rules(w->workspaces, uid, workspace);
}

int workspace_port_git(void *host, const struct git_key *at, char ret[PATH_MAX], struct err *e)
{
	struct host_ports *w = host;

	return git_searches_of(w->searches, at, ret, e);
}
