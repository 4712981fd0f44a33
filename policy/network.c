/* The hosts that a command would connect to (network.def), as far as its words name them. */

#include "policy/analysis.h"

#include "runtime/base/mem.h"

#include <ctype.h>

enum where { WHERE_URLS, WHERE_FIRST, WHERE_REMOTES, WHERE_HOST, WHERE_NONE };

static const struct row {
	const char *pattern, *intent;
	enum where where;
} rows[] = {
#define NETWORK(pattern, intent, where) { pattern, intent, WHERE_##where },
#include "policy/network.def"
#undef NETWORK
};

/* Adds a host; len 0: the words do not name it. */
static void add_host(struct analysis *r, size_t index, const char *host, size_t len, unsigned port, const char *intent)
{
	struct command_facts *f = r->facts;

	f->host = shell_arena_grow(r->arena, f->host, f->nhosts, sizeof(*f->host));
	f->host[f->nhosts++] = (struct command_host){ .host = len ? shell_arena_strndup(r->arena, host, len) : NULL,
						      .port = port,
						      .intent = intent,
						      .command = index };
	analysis_simple(r, index)->flags |= COMMAND_NETWORK;
}

/* The number up to the end of the authority; 0: not a port. */
static unsigned port_of(const char *s)
{
	unsigned port = 0;

	for (; isdigit((unsigned char)*s) && port < 100000; s++)
		port = port * 10 + (unsigned)(*s - '0');
	return port < 65536 && (!*s || *s == '/' || *s == '?' || *s == '#') ? port : 0;
}

/* [user@]host[:port][/…]; the brackets of an IPv6 address are removed. */
static bool add_authority(struct analysis *r, size_t index, const char *s, const char *intent)
{
	const size_t all = strcspn(s, "/?#");
	const char *at = memrchr(s, '@', all), *host = at ? at + 1 : s;
	size_t left = (size_t)(s + all - host), len;

	if (left && *host == '[') {
		const char *close = memchr(host, ']', left);

		if (!close)
			return false;
		add_host(r, index, host + 1, (size_t)(close - host) - 1, close[1] == ':' ? port_of(close + 2) : 0,
			 intent);
		return true;
	}
	len = strcspn(host, ":/?#");
	len = len < left ? len : left;
	if (!len || strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") < len)
		return false;
	add_host(r, index, host, len, host[len] == ':' ? port_of(host + len + 1) : 0, intent);
	return true;
}

/* scheme://authority…; file:// has no host. */
static bool add_url(struct analysis *r, size_t index, const char *s, const char *intent)
{
	const char *scheme = strstr(s, "://");

	if (!scheme || scheme == s || strncmp(s, "file://", 7) == 0)
		return false;
	for (const char *c = s; c < scheme; c++)
		if (!isalnum((unsigned char)*c) && !strchr("+.-", *c))
			return false;
	return add_authority(r, index, scheme + 3, intent);
}

/* user@host:path or host:path; not a path that contains a colon */
static bool add_remote(struct analysis *r, size_t index, const char *s, const char *intent)
{
	const char *colon = strchr(s, ':'), *slash = strchr(s, '/');

	if (add_url(r, index, s, intent))
		return true;
	if (!colon || colon == s || colon[1] == ':' || (slash && slash < colon))
		return false;
	char *host = shell_arena_strndup(r->arena, s, (size_t)(colon - s));
	return add_authority(r, index, host, intent);
}

/* Adds the hosts that the row's kind of operands name; false: none was found. */
static bool add_from_words(struct analysis *r, const struct analysis_command *c, const struct row *row)
{
	const struct command_args *a = c->args;
	bool found = false;

	if (row->where == WHERE_HOST) {
		const struct command_option *o = args_option(a, 'h', "host");

		return o && o->value && add_authority(r, c->index, o->value, row->intent);
	}
	if (row->where == WHERE_URLS) {
		const struct command_option *o = args_option(a, 0, "url");

		found = o && o->value && add_url(r, c->index, o->value, row->intent);
	}
	for (size_t i = 0; i < a->noperands && row->where != WHERE_NONE; i++) {
		const char *s = a->operand[i]->value;
		/* https://host/$path: the host is known */
		const char *text = s ? s : a->operand[i]->lead ? a->operand[i]->plain : NULL;

		if (!text)
			continue;
		if (row->where == WHERE_REMOTES)
			found |= add_remote(r, c->index, text, row->intent);
		else if (add_url(r, c->index, text, row->intent))
			found = true;
		else if (s && !strstr(s, "://") && (row->where == WHERE_URLS || i == 0))
			found |= add_authority(r, c->index, s, row->intent);
	}
	return found;
}

/* git clone /srv/x, scp a b, curl file:///x: no host is contacted */
static bool is_local(const struct command_args *a, const struct row *row)
{
	bool paths = false;

	if (a->open || (row->where != WHERE_REMOTES && row->where != WHERE_URLS))
		return false;
	for (size_t i = 0; i < a->noperands; i++) {
		const char *s = a->operand[i]->plain;

		paths |= *s == '/' || *s == '.' || strncmp(s, "file://", 7) == 0;
	}
	return paths || (row->where == WHERE_REMOTES && strcmp(a->name, "scp") == 0);
}

void network_of_command(struct analysis *r, const struct analysis_command *c)
{
	static uint64_t first[countof(rows)];
	const char *name = c->args->name;

	for (size_t i = 0; name && i < countof(rows); i++)
		if (args_may_name(name, rows[i].pattern, &first[i]) && args_match(c->args, rows[i].pattern)) {
			if (!add_from_words(r, c, &rows[i]) && !is_local(c->args, &rows[i]))
				add_host(r, c->index, NULL, 0, 0, rows[i].intent);
			break;
		}
	/* bash's own network redirections: >/dev/tcp/host/port */
	for (size_t i = 0; i < c->nredirects; i++) {
		const struct shell_word *target = &c->redirect[i].target;
		const char *s = target->plain;

		if (strncmp(s, "/dev/tcp/", 9) != 0 && strncmp(s, "/dev/udp/", 9) != 0)
			continue;
		s += 9;
		const size_t n = strcspn(s, "/");
		add_host(r, c->index, s, target->value ? n : 0, s[n] && target->value ? port_of(s + n + 1) : 0,
			 "connect");
	}
}
