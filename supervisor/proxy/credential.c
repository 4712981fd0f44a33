#include "supervisor/proxy/credential.h"

#include "runtime/base/mem.h"

#include <string.h>

static bool is_text(const char *p, size_t n)
{
	size_t len = strnlen(p, n);

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f)
			return false;
	return len > 0 && len < n;
}

bool credentials_add(struct credentials *s, const struct proxy_credential *c)
{
	struct credential one = { .text = *c };
	size_t at = 0;

	if (!is_text(c->name, sizeof c->name) || !is_text(c->host, sizeof c->host) ||
	    !is_text(c->header, sizeof c->header) || !is_text(c->value, sizeof c->value) ||
	    host_rule_parse(c->host, false, &one.host, NULL) < 0)
		return false;
	while (at < s->count && strcmp(s->all[at].text.name, c->name) != 0)
		at++;
	if (at == countof(s->all))
		return false;
	s->all[at] = one;
	s->count += at == s->count;
	return true;
}

static bool matches_target(const struct host_rule *r, const struct connect_target *t)
{
	const struct host_rules one = { .rule = (struct host_rule *)r, .count = 1 };

	/* The exact host only. Whether an address may be dialled at all was decided earlier. */
	if (t->is_address)
		return r->kind == HOST_RULE_NET && (!r->port || r->port == t->port) &&
		       net_address_within(&t->address, &r->net, r->bits);
	return host_rules_name(&one, t->host, t->port) == HOST_ALLOWED;
}

const struct http_extra *credentials_for(const struct credentials *s, const struct host_rules *rules,
					 const struct connect_target *t, struct http_extra *room)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (rules->rule[i].kind != HOST_RULE_CREDENTIAL)
			continue;
		for (size_t k = 0; k < s->count; k++)
			if (strcmp(s->all[k].text.name, rules->rule[i].name) == 0 &&
			    matches_target(&s->all[k].host, t)) {
				*room = (struct http_extra){ s->all[k].text.header, s->all[k].text.value };
				return room;
			}
	}
	return NULL;
}
