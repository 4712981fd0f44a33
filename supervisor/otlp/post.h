#ifndef BAILIFF_OTLP_POST_H
#define BAILIFF_OTLP_POST_H

/*
 * Posting to an OTLP/HTTP endpoint. It blocks: this process has nothing else to do, and whoever sends it events keeps
 * them in the log meanwhile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct post;

enum post_result {
	POST_DONE,
	POST_PARTLY, /* taken, but for a part that it will never take */
	POST_LATER,  /* nobody there, or it asked for patience: the same again, *ret_wait_ms from now at the earliest */
	POST_REFUSED, /* it will never take this */
};

/*
 * From OTEL_EXPORTER_OTLP_ENDPOINT, …_HEADERS, …_TIMEOUT and …_PROTOCOL, each of which OTEL_EXPORTER_OTLP_TRACES_… or
 * …_METRICS_… replaces for one signal, and OTEL_{TRACES,METRICS}_EXPORTER. ERR_INVALID names the variable that is
 * wrong.
 */
int post_new(struct post **ret, struct err *e);
void post_free(struct post *p);

enum post_signal { POST_TRACES, POST_METRICS, POST_SIGNALS };
bool post_wanted(const struct post *p,
		 enum post_signal signal); /* an endpoint is known for it, and nobody switched it off */
/* *e says why, unless it is done; of POST_PARTLY, what was left out. */
enum post_result post_send(struct post *p, enum post_signal signal, const struct buf *body, uint64_t *ret_wait_ms,
			   struct err *e);

/* "k=v,k2=v2" with %XX in values, as OTEL_EXPORTER_OTLP_HEADERS has it; called for each. −1: not of that form. */
int post_headers_each(const char *text, void (*fn)(void *ctx, const char *name, const char *value), void *ctx);

#endif
