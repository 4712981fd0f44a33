#include "sandbox/host_rule.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static bool label_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

/* "1", "0x7f", "017": numbers in inet_aton's sense, so that "127.1" is 127.0.0.1 and not a name. */
static bool is_number(const char *label)
{
	size_t n = strlen(label);

	if (n > 1 && label[0] == '0' && label[1] == 'x')
		return strspn(label + 2, "0123456789abcdef") == n - 2;
	return n > 0 && strspn(label, "0123456789") == n;
}

bool host_name_clean(const char *text, size_t len, char ret[HOST_NAME_MAX_LEN + 1])
{
	size_t label = 0;
	char name[HOST_NAME_MAX_LEN + 1];

	if (len > 1 && text[len - 1] == '.')
		len--;
	if (len == 0 || len > HOST_NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + ('a' - 'A')) : text[i];

		if (c == '.' && label == 0)
			return false;
		if (c != '.' && !label_char(c))
			return false;
		label = c == '.' ? 0 : label + 1;
		if (label > 63)
			return false;
		name[i] = c;
	}
	name[len] = '\0';
	const char *last = strrchr(name, '.');
	if (label == 0 || is_number(last ? last + 1 : name))
		return false;
	memcpy(ret, name, len + 1);
	return true;
}

static bool parse_port(const char *text, size_t len, uint16_t *ret)
{
	unsigned long n = 0;

	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		n = n * 10 + (unsigned long)(text[i] - '0');
	}
	if (n == 0 || n > 65535)
		return false;
	*ret = (uint16_t)n;
	return true;
}

bool host_split(const char *text, size_t len, char host[256], uint16_t *ret_port)
{
	const char *colon, *end;
	size_t n = len;

	*ret_port = 0;
	if (len > 0 && text[0] == '[') {
		end = memchr(text, ']', len);
		if (!end)
			return false;
		n = (size_t)(end - text) - 1;
		size_t rest = len - n - 2;
		if (rest && (end[1] != ':' || !parse_port(end + 2, rest - 1, ret_port)))
			return false;
		text++;
	} else if ((colon = memchr(text, ':', len)) && !memchr(colon + 1, ':', len - (size_t)(colon - text) - 1)) {
		n = (size_t)(colon - text);
		if (!parse_port(colon + 1, len - n - 1, ret_port))
			return false;
	}
	if (n == 0 || n > 255 || memchr(text, 0, n))
		return false;
	memcpy(host, text, n);
	host[n] = '\0';
	return true;
}

/* ---- one rule ---- */

static bool parse_bits(const char *text, bool v4, uint8_t *ret)
{
	unsigned n = 0, most = v4 ? 32 : 128;

	if (!text[0] || strlen(text) > 3 || strspn(text, "0123456789") != strlen(text))
		return false;
	for (const char *p = text; *p; p++)
		n = n * 10 + (unsigned)(*p - '0');
	if (n > most)
		return false;
	*ret = (uint8_t)(v4 ? 96 + n : n);
	return true;
}

/* "10.0.0.0/8:443": the port comes last, as in all other forms. */
static bool parse_net(char *host, struct host_rule *r)
{
	char *slash = strchr(host, '/');

	if (slash)
		*slash = '\0';
	if (!net_address_parse(host, &r->net))
		return false;
	r->kind = HOST_RULE_NET;
	r->bits = 128;
	if (slash && !parse_bits(slash + 1, net_address_is_v4(&r->net), &r->bits))
		return false;
	struct net_address first = r->net;
	for (unsigned i = r->bits; i < 128; i++)
		first.b[i / 8] &= (uint8_t) ~(0x80u >> (i % 8));
	return memcmp(&first, &r->net, sizeof first) == 0;
}

int host_rule_parse(const char *text, bool deny, struct host_rule *ret, struct err *e)
{
	struct host_rule r = { .deny = deny };
	char host[256], plain[256];

	if (strstr(text, "://"))
		return err_set(e, ERR_INVALID, "'%.100s' is a URL; expected HOST or HOST:PORT", text);
	if (!host_split(text, strlen(text), host, &r.port))
		return err_set(e, ERR_INVALID, "'%.100s' is not HOST or HOST:PORT", text);
	memcpy(plain, host, sizeof plain);
	if (parse_net(host, &r)) {
		*ret = r;
		return 0;
	}
	r.kind = 0;
	r.bits = 0;
	r.net = (struct net_address){ { 0 } };
	if (strcmp(plain, "*") == 0)
		r.kind = HOST_RULE_ANY;
	else if (strncmp(plain, "*.", 2) == 0 && host_name_clean(plain + 2, strlen(plain + 2), r.name))
		r.kind = HOST_RULE_BELOW;
	else if (host_name_clean(plain, strlen(plain), r.name))
		r.kind = HOST_RULE_NAME;
	if (!r.kind)
		return err_set(e, ERR_INVALID,
			       "'%.100s' is not a host: expected a name, *.name, *, an address or a network such as "
			       "10.0.0.0/8",
			       text);
	*ret = r;
	return 0;
}

bool host_rule_valid(const struct host_rule *r)
{
	char name[HOST_NAME_MAX_LEN + 1];
	size_t n = strnlen(r->name, sizeof r->name);

	if (r->deny > 1 || n == sizeof r->name)
		return false;
	if (r->kind == HOST_RULE_NET)
		return r->bits <= 128;
	if (r->kind == HOST_RULE_ANY)
		return true;
	return (r->kind == HOST_RULE_NAME || r->kind == HOST_RULE_BELOW || r->kind == HOST_RULE_CREDENTIAL) &&
	       host_name_clean(r->name, n, name) && strcmp(name, r->name) == 0;
}

bool host_rule_credential(const char *name, struct host_rule *ret)
{
	struct host_rule r = { .kind = HOST_RULE_CREDENTIAL };

	if (!host_name_clean(name, strlen(name), r.name))
		return false;
	*ret = r;
	return true;
}

bool host_rule_allows(const struct host_rule *r) { return !r->deny && r->kind != HOST_RULE_CREDENTIAL; }

void host_rule_text(const struct host_rule *r, struct buf *out)
{
	if (r->kind == HOST_RULE_NET) {
		char text[NET_ADDRESS_TEXT];
		bool v4 = net_address_is_v4(&r->net) && r->bits >= 96, brackets = !v4 && r->port;

		net_address_text(&r->net, text);
		buf_printf(out, "%s%s", brackets ? "[" : "", text);
		if (r->bits < 128)
			buf_printf(out, "/%u", v4 ? r->bits - 96u : r->bits);
		buf_str(out, brackets ? "]" : "");
	} else {
		buf_printf(out, "%s%s",
			   r->kind == HOST_RULE_BELOW ? "*."
			   : r->kind == HOST_RULE_ANY ? "*"
						      : "",
			   r->name);
	}
	if (r->port)
		buf_printf(out, ":%u", r->port);
}

/* ---- many ---- */

void host_rules_add(struct host_rules *s, const struct host_rule *r)
{
	for (size_t i = 0; i < s->count; i++)
		if (memcmp(&s->rule[i], r, sizeof *r) == 0)
			return;
	s->rule = mem_realloc(s->rule, (s->count + 1) * sizeof *s->rule);
	s->rule[s->count++] = *r;
}

void host_rules_copy(const struct host_rules *from, struct host_rules *ret)
{
	ret->count = from->count;
	ret->rule = from->count ? mem_dup(from->rule, from->count * sizeof *from->rule) : NULL;
}

void host_rules_done(struct host_rules *s)
{
	free(s->rule);
	*s = (struct host_rules){ 0 };
}

static bool is_below(const char *name, const char *parent)
{
	size_t n = strlen(name), p = strlen(parent);

	return n > p + 1 && name[n - p - 1] == '.' && strcmp(name + n - p, parent) == 0;
}

static bool matches_name(const struct host_rule *r, const char *name)
{
	return r->kind == HOST_RULE_ANY || (r->kind == HOST_RULE_NAME && strcmp(r->name, name) == 0) ||
	       (r->kind == HOST_RULE_BELOW && is_below(name, r->name));
}

static bool matches_port(const struct host_rule *r, uint16_t port) { return r->port == 0 || r->port == port; }

static bool rule_covers(const struct host_rule *a, const struct host_rule *r)
{
	if (!host_rule_allows(a) || (a->port && a->port != r->port))
		return false;
	switch (r->kind) {
	case HOST_RULE_NET:
		return a->kind == HOST_RULE_NET && a->bits <= r->bits && net_address_within(&r->net, &a->net, a->bits);
	case HOST_RULE_ANY: return a->kind == HOST_RULE_ANY;
	case HOST_RULE_BELOW:
		return a->kind == HOST_RULE_ANY ||
		       (a->kind == HOST_RULE_BELOW && (strcmp(a->name, r->name) == 0 || is_below(r->name, a->name)));
	default:
		/* As an exact name, localhost is this machine; as a match of a wildcard it is not. */
		return matches_name(a, r->name) && (a->kind == HOST_RULE_NAME || strcmp(r->name, "localhost") != 0);
	}
}

bool host_rules_include(const struct host_rules *s, const struct host_rule *r)
{
	for (size_t i = 0; i < s->count; i++)
		if (rule_covers(&s->rule[i], r))
			return true;
	return false;
}

enum host_verdict host_rules_name(const struct host_rules *s, const char *name, uint16_t port)
{
	enum host_verdict v = HOST_NOT_LISTED;

	for (size_t i = 0; i < s->count; i++) {
		const struct host_rule *r = &s->rule[i];

		if (r->kind == HOST_RULE_NET || !matches_port(r, port) || !matches_name(r, name))
			continue;
		if (r->deny)
			return HOST_DENIED;
		v = HOST_ALLOWED;
	}
	return v;
}

/* A network of only such addresses was written deliberately and allows them; metadata addresses must be named alone. */
static bool rule_opens(const struct host_rule *r, enum net_class class)
{
	struct net_address last = r->net;

	if (r->bits == 128)
		return true;
	if (class == NET_METADATA)
		return false;
	for (unsigned i = r->bits; i < 128; i++)
		last.b[i / 8] |= (uint8_t)(0x80u >> (i % 8));
	return net_address_class(&r->net) != NET_PUBLIC && net_address_class(&last) != NET_PUBLIC &&
	       r->bits >= (net_address_is_v4(&r->net) ? 96 + 8 : 7);
}

static bool names_localhost(const struct host_rules *s, uint16_t port)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct host_rule *r = &s->rule[i];

		if (!r->deny && r->kind == HOST_RULE_NAME && matches_port(r, port) && strcmp(r->name, "localhost") == 0)
			return true;
	}
	return false;
}

enum host_verdict host_rules_address(const struct host_rules *s, const char *name, const struct net_address *a,
				     uint16_t port)
{
	enum net_class class = net_address_class(a);
	bool listed = name != NULL, open = class == NET_PUBLIC;

	for (size_t i = 0; i < s->count; i++) {
		const struct host_rule *r = &s->rule[i];

		if (r->kind != HOST_RULE_NET || !matches_port(r, port) || !net_address_within(a, &r->net, r->bits))
			continue;
		if (r->deny)
			return HOST_DENIED;
		listed = true;
		open |= rule_opens(r, class);
	}
	if (name && class == NET_LOOPBACK && strcmp(name, "localhost") == 0)
		open |= names_localhost(s, port);
	return !listed ? HOST_NOT_LISTED : open ? HOST_ALLOWED : HOST_INSIDE;
}

bool host_rules_allow_literal(const struct host_rules *s, const char *text)
{
	struct net_address a;
	bool is_address = net_address_parse(text, &a);

	for (size_t i = 0; i < s->count; i++) {
		const struct host_rule *r = &s->rule[i];

		if (r->deny)
			continue;
		if (is_address ? r->kind == HOST_RULE_NET && net_address_within(&a, &r->net, r->bits)
			       : r->kind == HOST_RULE_NAME && strcmp(r->name, text) == 0)
			return true;
	}
	return false;
}
