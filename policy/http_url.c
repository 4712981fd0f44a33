#include "policy/http_url.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/host_rule.h"

#include <string.h>

static int parse_host(const char *at, struct http_url *ret, struct err *e)
{
	size_t n = strcspn(at, "/?#");
	mem_auto char *given = mem_strndup(at, n);
	struct err inner = ERR_INIT;
	struct host_rule r;

	if (strchr(given, '@'))
		return err_set(e, ERR_INVALID, "must have no user or password in it; credentials are given separately");
	if (host_rule_parse(given, false, &r, &inner) < 0)
		return err_set(e, ERR_INVALID, "has an invalid host: %.150s", inner.message);
	if ((r.kind != HOST_RULE_NAME && r.kind != HOST_RULE_NET) || (r.kind == HOST_RULE_NET && strchr(given, '/')))
		return err_set(e, ERR_INVALID, "must name one host");
	const char *colon = strrchr(given, ':');
	bool bare = given[0] == '[' ? given[n - 1] == ']' : !colon;
	ret->host = r.port || !bare ? mem_strdup(given) : mem_printf("%s:%u", given, ret->tls ? 443u : 80u);
	ret->loopback = r.kind == HOST_RULE_NET ? net_address_class(&r.net) == NET_LOOPBACK
						: strcmp(r.name, "localhost") == 0;
	return 0;
}

int http_url_parse(const char *url, struct http_url *ret, struct err *e)
{
	struct http_url u = { .tls = strncmp(url, "https://", 8) == 0 };

	for (const char *s = url; *s; s++)
		if (*s <= ' ' || *s > '~' || strchr("\"<>\\^`{|}", *s))
			return err_set(e, ERR_INVALID, "has invalid characters; write them as %%xx");
	if (!u.tls && strncmp(url, "http://", 7) != 0)
		return err_set(e, ERR_INVALID, "must begin with http:// or https://");
	if (parse_host(url + 7 + u.tls, &u, e) < 0)
		return -1;
	*ret = u;
	return 0;
}
