#ifndef BAILIFF_OTLP_OTLP_HTTP_H
#define BAILIFF_OTLP_OTLP_HTTP_H

/*
 * Requests to an OTLP/HTTP endpoint. They block: this process has nothing else to do, and events stay in the log
 * meanwhile. The body of a request is JSON, even if the environment asks for http/protobuf, the specification's
 * default: collectors accept both at the same URL.
 *
 * All requests share one libcurl handle, which keeps connections open between them. TLS uses the system's certificates.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct otlp_http;

enum otlp_http_result {
	OTLP_HTTP_DONE,
	OTLP_HTTP_PARTLY,  /* accepted, except for a part that was permanently rejected */
	OTLP_HTTP_LATER,   /* unreachable, or it asked to retry: repeat after at least *ret_wait_ms */
	OTLP_HTTP_REFUSED, /* permanently rejected */
};

/*
 * Reads OTEL_EXPORTER_OTLP_ENDPOINT, …_HEADERS, …_TIMEOUT and …_PROTOCOL, each of which can be overridden for one
 * signal by OTEL_EXPORTER_OTLP_TRACES_… or …_METRICS_…, and OTEL_{TRACES,METRICS}_EXPORTER. ERR_INVALID names the
 * invalid variable.
 */
int otlp_http_new(struct otlp_http **ret, struct err *e);
void otlp_http_free(struct otlp_http *p);

enum otlp_http_signal { OTLP_HTTP_TRACES, OTLP_HTTP_METRICS, OTLP_HTTP_SIGNALS };
bool otlp_http_wanted(const struct otlp_http *p,
		      enum otlp_http_signal signal); /* whether it has an endpoint and is not disabled */
/*
 * Sends one body and blocks up to the signal's timeout (10 s by default). The signal must be enabled
 * (otlp_http_wanted). Unless the result is OTLP_HTTP_DONE, *e has the reason; with OTLP_HTTP_PARTLY, what was rejected.
 * *ret_wait_ms is 0 unless the server named a time.
 */
enum otlp_http_result otlp_http_send(struct otlp_http *p, enum otlp_http_signal signal, const struct buf *body,
				     uint64_t *ret_wait_ms, struct err *e);

/* Parses "k=v,k2=v2" with %XX in values, the syntax of OTEL_EXPORTER_OTLP_HEADERS; calls fn for each. −1: malformed. */
int otlp_http_headers_each(const char *text, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

/*
 * A duration in milliseconds from an environment variable, 1 to `most`; `otherwise` if it is unset or empty.
 * ERR_INVALID names the variable.
 */
int env_setting_ms(const char *variable, uint64_t otherwise, uint64_t most, uint64_t *ret, struct err *e);

#endif
