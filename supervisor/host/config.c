#include "supervisor/host/config.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "sandbox/host_rule.h"

#include <jansson.h>
#include <stdbool.h>

#define CONFIG_TEXT_MAX (1024 * 1024)

struct key {
	const char *name;
	size_t offset;
	bool is_string;
	uint64_t least, most;
};

static const struct key keys[] = {
#define CONFIG_STRING(field, key, def, help) \
	{ key, offsetof(struct config, field), true, 1, sizeof(((struct config *)0)->field) - 1 },
#define CONFIG_UINT(field, key, def, min, max, help) { key, offsetof(struct config, field), false, min, max },
#include "supervisor/host/config_keys.def"
#undef CONFIG_STRING
#undef CONFIG_UINT
};

void config_defaults(struct config *c)
{
	*c = (struct config){
#define CONFIG_STRING(field, key, def, help) .field = def,
#define CONFIG_UINT(field, key, def, min, max, help) .field = def,
#include "supervisor/host/config_keys.def"
#undef CONFIG_STRING
#undef CONFIG_UINT
		.publish_addresses = { "127.0.0.1", "::1" },
		.npublish_addresses = 2,
	};
}

/* Without a list every user may answer its own actions. */
bool config_may_approve(const struct config *c, uint32_t uid, const uint32_t *gids, size_t ngids)
{
	if (!c->napprover_uids && !c->napprover_gids)
		return true;
	for (size_t i = 0; i < c->napprover_uids; i++)
		if (c->approver_uids[i] == uid)
			return true;
	for (size_t i = 0; i < c->napprover_gids * ngids; i++)
		if (c->approver_gids[i / ngids] == gids[i % ngids])
			return true;
	return false;
}

static const char *type_name(const json_t *v)
{
	static const char *const names[] = {
		[JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array",  [JSON_STRING] = "a string",
		[JSON_INTEGER] = "an integer", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
		[JSON_FALSE] = "false",        [JSON_NULL] = "null",
	};

	return names[json_typeof(v)];
}

static int set_string(const struct key *k, const json_t *v, char *ret, struct err *e)
{
	size_t n = json_string_length(v);

	if (!json_is_string(v))
		return err_field(e, k->name, "must be a string, not %s", type_name(v));
	if (n < k->least || n > k->most)
		return err_field(e, k->name, "must have %llu to %llu bytes", (unsigned long long)k->least,
				 (unsigned long long)k->most);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)json_string_value(v)[i] < 0x20)
			return err_field(e, k->name, "must not contain control characters");
	memcpy(ret, json_string_value(v), n + 1);
	return 0;
}

static int set_uint(const struct key *k, const json_t *v, uint64_t *ret, struct err *e)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v))
		return err_field(e, k->name, "must be a whole number, not %s", type_name(v));
	if (n < 0 || (uint64_t)n < k->least || (uint64_t)n > k->most) {
		if (k->most >= INT64_MAX)
			return err_field(e, k->name, "must be %llu or more", (unsigned long long)k->least);
		return err_field(e, k->name, "must be %llu to %llu", (unsigned long long)k->least,
				 (unsigned long long)k->most);
	}
	*ret = (uint64_t)n;
	return 0;
}

/* An element that is not an id is reported with its index. */
static int set_ids(const char *path, const json_t *v, uint32_t *ret, size_t cap, size_t *ret_n, struct err *e)
{
	if (!json_is_array(v))
		return err_field(e, path, "must be an array of ids, not %s", type_name(v));
	if (json_array_size(v) > cap)
		return err_field(e, path, "must have at most %zu ids", cap);
	for (size_t i = 0; i < json_array_size(v); i++) {
		const json_t *id = json_array_get(v, i);
		json_int_t n = json_integer_value(id);

		/* 2³²−1 is "no id" to the kernel */
		if (!json_is_integer(id) || n < 0 || n >= UINT32_MAX) {
			char where[ERR_FIELD_MAX];

			(void)snprintf(where, sizeof(where), "%s[%zu]", path, i);
			return err_field(e, where, "must be an id, 0 to 4294967294");
		}
		ret[i] = (uint32_t)n;
	}
	*ret_n = json_array_size(v);
	return 0;
}

static int set_approvers(json_t *v, struct config *c, struct err *e)
{
	const char *name;
	json_t *ids;

	if (!json_is_object(v))
		return err_field(e, "approvers", "must be an object with uids and gids, not %s", type_name(v));
	json_object_foreach (v, name, ids) {
		char path[ERR_FIELD_MAX];
		int r;

		if (strcmp(name, "uids") == 0)
			r = set_ids("approvers.uids", ids, c->approver_uids, countof(c->approver_uids),
				    &c->napprover_uids, e);
		else if (strcmp(name, "gids") == 0)
			r = set_ids("approvers.gids", ids, c->approver_gids, countof(c->approver_gids),
				    &c->napprover_gids, e);
		else {
			(void)snprintf(path, sizeof(path), "approvers.%.40s", name);
			r = err_field(e, path, "unknown key");
		}
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Names that the proxy resolves without the resolver. Their addresses are checked like any other. */
static int set_hosts(json_t *v, struct config *c, struct err *e)
{
	const char *name;
	json_t *text;

	if (!json_is_object(v))
		return err_field(e, "proxyHosts", "must be an object of names and addresses, not %s", type_name(v));
	if (json_object_size(v) > CONFIG_HOSTS_MAX)
		return err_field(e, "proxyHosts", "must have at most %d names", CONFIG_HOSTS_MAX);
	json_object_foreach (v, name, text) {
		struct config_host *h = &c->proxy_hosts[c->nproxy_hosts];
		struct net_address a;

		if (!host_name_clean(name, strlen(name), h->host))
			return err_field(e, "proxyHosts", "'%.100s' is not a host name", name);
		if (!json_is_string(text) || !net_address_parse(json_string_value(text), &a))
			return err_field(e, "proxyHosts", "'%.100s' must have an address", name);
		net_address_text(&a, h->address);
		c->nproxy_hosts++;
	}
	return 0;
}

static int copy_text(const json_t *object, const char *key, char *ret, size_t size, const char *where, struct err *e)
{
	const char *s = json_string_value(json_object_get(object, key));

	if (!s || !s[0] || strlen(s) >= size || strlen(s) != json_string_length(json_object_get(object, key)))
		return err_field(e, where, "%s must be a string of 1 to %zu bytes", key, size - 1);
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return err_field(e, where, "%s must not contain control characters", key);
	memcpy(ret, s, strlen(s) + 1);
	return 0;
}

static int set_credential(const char *name, json_t *v, struct config_credential *ret, struct err *e)
{
	struct err inner = ERR_INIT;
	struct host_rule host, known;
	char where[ERR_FIELD_MAX];

	snprintf(where, sizeof where, "proxyCredentials.%.40s", name);
	if (!host_rule_credential(name, &known))
		return err_field(e, where, "a credential's name is written like a host's");
	memcpy(ret->name, known.name, sizeof ret->name);
	if (!json_is_object(v) || json_object_size(v) != 3)
		return err_field(e, where, "must be an object with host, header and value");
	if (copy_text(v, "host", ret->host, sizeof ret->host, where, e) < 0 ||
	    copy_text(v, "header", ret->header, sizeof ret->header, where, e) < 0 ||
	    copy_text(v, "value", ret->value, sizeof ret->value, where, e) < 0)
		return -1;
	if (host_rule_parse(ret->host, false, &host, &inner) < 0)
		return err_field(e, where, "host: %s", inner.message);
	if (host.kind == HOST_RULE_ANY)
		return err_field(e, where, "host: a credential is for a host, not for all of them");
	if (host.port == 443)
		return err_field(e, where, "host: headers can be added to plain HTTP only, not to TLS");
	if (strspn(ret->header, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") !=
	    strlen(ret->header))
		return err_field(e, where, "header: contains characters that are not valid in a header name");
	return 0;
}

static int set_credentials(json_t *v, struct config *c, struct err *e)
{
	const char *name;
	json_t *one;

	if (!json_is_object(v))
		return err_field(e, "proxyCredentials", "must be an object of credentials, not %s", type_name(v));
	if (json_object_size(v) > CONFIG_CREDENTIALS_MAX)
		return err_field(e, "proxyCredentials", "must have at most %d", CONFIG_CREDENTIALS_MAX);
	json_object_foreach (v, name, one)
		if (set_credential(name, one, &c->credentials[c->ncredentials++], e) < 0)
			return -1;
	return 0;
}

/* In addition to bailiff's own files, which sandboxes never show. */
static int set_secrets(json_t *v, struct config *c, struct err *e)
{
	char where[ERR_FIELD_MAX], path[PATH_MAX];
	size_t i;
	json_t *one;

	if (!json_is_array(v) || json_array_size(v) > CONFIG_SECRETS_MAX)
		return err_field(e, "secretPaths", "must be an array of at most %d paths", CONFIG_SECRETS_MAX);
	json_array_foreach (v, i, one) {
		const char *s = json_string_value(one);
		struct err inner = ERR_INIT;

		snprintf(where, sizeof where, "secretPaths[%zu]", i);
		if (!s || strlen(s) != json_string_length(one) || s[0] != '/' || path_clean(s, path, &inner) < 0 ||
		    !path[1] || strlen(path) >= sizeof c->secret_paths[0])
			return err_field(e, where,
					 "must be the absolute path of a file or directory, at most %zu bytes long",
					 sizeof c->secret_paths[0] - 1);
		memcpy(c->secret_paths[c->nsecret_paths++], path, strlen(path) + 1);
	}
	return 0;
}

/* Replaces the default, which is loopback. */
static int set_addresses(json_t *v, struct config *c, struct err *e)
{
	char where[ERR_FIELD_MAX];
	struct net_address a;
	size_t i;
	json_t *one;

	if (!json_is_array(v) || json_array_size(v) > CONFIG_ADDRESSES_MAX)
		return err_field(e, "publishAddresses", "must be an array of at most %d addresses",
				 CONFIG_ADDRESSES_MAX);
	c->npublish_addresses = 0;
	json_array_foreach (v, i, one) {
		snprintf(where, sizeof where, "publishAddresses[%zu]", i);
		if (!json_is_string(one) || !net_address_parse(json_string_value(one), &a))
			return err_field(e, where, "must be an IPv4 or IPv6 address of this host");
		net_address_text(&a, c->publish_addresses[c->npublish_addresses++]);
	}
	return 0;
}

static int set_key(const char *name, json_t *v, struct config *c, struct err *e)
{
	for (size_t i = 0; i < countof(keys); i++) {
		void *at = (char *)c + keys[i].offset;

		if (strcmp(keys[i].name, name) == 0)
			return keys[i].is_string ? set_string(&keys[i], v, at, e) : set_uint(&keys[i], v, at, e);
	}
	if (strcmp(name, "approvers") == 0)
		return set_approvers(v, c, e);
	if (strcmp(name, "proxyHosts") == 0)
		return set_hosts(v, c, e);
	if (strcmp(name, "proxyCredentials") == 0)
		return set_credentials(v, c, e);
	if (strcmp(name, "secretPaths") == 0)
		return set_secrets(v, c, e);
	if (strcmp(name, "publishAddresses") == 0)
		return set_addresses(v, c, e);
	if (strncmp(name, "fleet.", 6) == 0)
		return 0; /* of the node of a fleet, which reads and checks them itself */
	return err_field(e, name, "unknown key");
}

int config_parse(const char *text, size_t len, struct config *ret, struct err *e)
{
	json_auto_t *root = NULL;
	struct config c;
	json_error_t je;
	const char *name;
	json_t *v;

	if (len > CONFIG_TEXT_MAX)
		return err_set(e, ERR_INVALID, "longer than %d bytes", CONFIG_TEXT_MAX);
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &je);
	if (!root)
		return err_set(e, ERR_INVALID, "line %d, column %d: %s", je.line, je.column, je.text);
	if (!json_is_object(root))
		return err_set(e, ERR_INVALID, "must be an object, not %s", type_name(root));
	config_defaults(&c);
	json_object_foreach (root, name, v)
		if (set_key(name, v, &c, e) < 0)
			return -1;
	*ret = c;
	return 0;
}
