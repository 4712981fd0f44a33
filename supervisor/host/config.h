#ifndef BAILIFF_SUPERVISOR_HOST_CONFIG_H
#define BAILIFF_SUPERVISOR_HOST_CONFIG_H

/*
 * config.json: keys from config_keys.def (name, type, default, bounds, help). An unknown key, a wrong type or a value
 * out of bounds is an error that names the key, and the daemon does not start.
 *
 * It is read when a runtime starts. SIGHUP reloads the policy only: most of these values are copied into other parts at
 * their start. The struct owns no memory and can be copied.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define CONFIG_HOSTS_MAX 64
#define CONFIG_CREDENTIALS_MAX 16
#define CONFIG_SECRETS_MAX 8
#define CONFIG_ADDRESSES_MAX 16

struct config_host {
	char host[256], address[48];
};

/* A header that the proxy puts into plain HTTP requests for a host, so that the secret never enters a sandbox. */
struct config_credential {
	char name[256], host[256], header[64], value[1024];
};

struct config {
#define CONFIG_STRING(name, key, def, help) char name[128];
#define CONFIG_UINT(name, key, def, min, max, help) uint64_t name;
#include "supervisor/host/config_keys.def"
#undef CONFIG_STRING
#undef CONFIG_UINT
	uint32_t approver_uids[32], approver_gids[32]; /* "approvers": {"uids":[…],"gids":[…]} */
	size_t napprover_uids, napprover_gids;
	struct config_host proxy_hosts[CONFIG_HOSTS_MAX]; /* "proxyHosts": {NAME: ADDRESS}: fixed addresses of names */
	size_t nproxy_hosts;
	struct config_credential
		credentials[CONFIG_CREDENTIALS_MAX]; /* "proxyCredentials": {NAME: {host, header, value}} */
	size_t ncredentials;
	char secret_paths[CONFIG_SECRETS_MAX][1024]; /* "secretPaths": files and folders that no sandbox shows; clean */
	size_t nsecret_paths;
	char publish_addresses[CONFIG_ADDRESSES_MAX][48]; /* "publishAddresses": where ports may be published */
	size_t npublish_addresses;
};

void config_defaults(struct config *c);
/* Whether a user in these groups may answer actions: every operator, unless approvers are named. */
bool config_may_approve(const struct config *c, uint32_t uid, const uint32_t *gids, size_t ngids);
/* Keys that are not given get their defaults. *ret is untouched on failure. */
int config_parse(const char *text, size_t len, struct config *ret, struct err *e);

#endif
