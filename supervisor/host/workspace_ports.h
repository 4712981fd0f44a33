#ifndef BAILIFF_SUPERVISOR_HOST_WORKSPACE_PORTS_H
#define BAILIFF_SUPERVISOR_HOST_WORKSPACE_PORTS_H

/* The ports for what is known of a workspace (runtime/engine/core/ports.h). `host` is a struct host_ports. */

#include <limits.h>
#include <stdint.h>

struct buf;
struct err;
struct git_key;
struct policy_key;
struct policy_rules;

int workspace_port_policy(void *host, const struct policy_key *at, const struct policy_rules **ret, struct err *e);
void workspace_port_repos(void *host, uint32_t uid, const char *workspace, struct buf *nested, struct buf *git);
const struct policy_rules *workspace_port_rules(void *host, uint32_t uid, const char *workspace);
int workspace_port_git(void *host, const struct git_key *at, char ret[PATH_MAX], struct err *e);

#endif
