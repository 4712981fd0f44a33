#ifndef BAILIFF_POLICY_HTTP_URL_H
#define BAILIFF_POLICY_HTTP_URL_H

/* URLs that decide which host a sandbox may reach, so their syntax is checked strictly. */

#include <stdbool.h>

struct err;

struct http_url {
	bool tls;
	bool loopback; /* its host is localhost or a loopback address */
	char *host;    /* with its port, in the syntax of a sandbox's rules (sandbox/host_rule.h) */
};
/* The message of an error begins with its predicate: "must begin with http:// or https://". */
int http_url_parse(const char *url, struct http_url *ret, struct err *e);

#endif
