#include "supervisor/gateway/http/http_address.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int parse_port(const char *text, uint16_t *ret, struct err *e)
{
	char *end = NULL;
	unsigned long v = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;

	if (!end || *end || end - text > 5 || v > 65535)
		return err_field(e, "--listen", "'%s' is not a port: a number from 0 (any free one) to 65535", text);
	*ret = (uint16_t)v;
	return 0;
}

int http_address_parse(const char *text, struct http_address *ret, struct err *e)
{
	struct http_address a = { .host = "127.0.0.1" };
	const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
	size_t n = colon ? (size_t)(colon - text) : 0;
	static const struct {
		const char *name, *host;
	} names[] = {
		{ "127.0.0.1", "127.0.0.1" },
		{ "localhost", "127.0.0.1" },
		{ "[::1]", "::1" },
		{ "", "127.0.0.1" },
	};

	for (size_t i = 0; i < countof(names); i++) {
		if (n != strlen(names[i].name) || strncasecmp(text, names[i].name, n) != 0)
			continue;
		snprintf(a.host, sizeof(a.host), "%s", names[i].host);
		if (parse_port(port, &a.port, e) < 0)
			return -1;
		*ret = a;
		return 0;
	}
	return err_field(e, "--listen",
			 "'%s' is not an address of this machine alone: use 127.0.0.1:PORT, [::1]:PORT or PORT. To "
			 "reach it from "
			 "elsewhere, tunnel (ssh -L PORT:127.0.0.1:PORT)",
			 text);
}

void http_address_format(const struct http_address *a, char ret[HTTP_ADDRESS_TEXT])
{
	bool six = strchr(a->host, ':');

	snprintf(ret, HTTP_ADDRESS_TEXT, "%s%s%s:%u", six ? "[" : "", a->host, six ? "]" : "", a->port);
}
