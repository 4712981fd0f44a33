#ifndef BAILIFF_OTLP_POST_H
#define BAILIFF_OTLP_POST_H

/*
 * Requests to an OTLP/HTTP endpoint. They block: this process has nothing else to do, and events stay in the log
 * meanwhile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct otlp_http;

enum otlp_http_result {
	OTLP_HTTP_DONE,
	OTLP_HTTP_PARTLY,  /* accepted, except a part that it will never accept */
	OTLP_HTTP_LATER,   /* nobody there, or it asked for patience: the same again, *ret_wait_ms from now at the
			      earliest */
	OTLP_HTTP_REFUSED, /* it will never accept this */
};

/*
 * From OTEL_EXPORTER_OTLP_ENDPOINT, …_HEADERS, …_TIMEOUT and …_PROTOCOL, each of which OTEL_EXPORTER_OTLP_TRACES_… or
 * …_METRICS_… replaces for one signal, and OTEL_{TRACES,METRICS}_EXPORTER. ERR_INVALID names the variable that is
 * wrong.
 */
int otlp_http_new(struct otlp_http **ret, struct err *e);
void otlp_http_free(struct otlp_http *p);

enum otlp_http_signal { OTLP_HTTP_TRACES, OTLP_HTTP_METRICS, OTLP_HTTP_SIGNALS };
bool otlp_http_wanted(const struct otlp_http *p,
		      enum otlp_http_signal signal); /* it has an endpoint and is not switched off */
/* *e has the reason unless OTLP_HTTP_DONE; with OTLP_HTTP_PARTLY, what was rejected. */
enum otlp_http_result otlp_http_send(struct otlp_http *p, enum otlp_http_signal signal, const struct buf *body,
				     uint64_t *ret_wait_ms, struct err *e);

/* "k=v,k2=v2" with %XX in values, as OTEL_EXPORTER_OTLP_HEADERS has it; called for each. −1: not of that form. */
int otlp_http_headers_each(const char *text, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
