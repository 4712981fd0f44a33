#include "supervisor/otlp/otlp_http.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 10000
#define TIMEOUT_MS_MAX 600000
#define ANSWER_MAX 4096u /* bytes of a response that are kept */
#define WAIT_MAX_MS (60u * 60 * 1000)

struct otlp_http {
	CURL *curl;
	struct {
		char *url; /* NULL: the signal is disabled */
		struct curl_slist *headers;
		long timeout;
	} to[OTLP_HTTP_SIGNALS];
	struct buf answer;
	char problem[CURL_ERROR_SIZE];
};

static const struct {
	const char *name, *path, *rejected;
} signals[OTLP_HTTP_SIGNALS] = {
	[OTLP_HTTP_TRACES] = { "TRACES", "/v1/traces", "rejectedSpans" },
	[OTLP_HTTP_METRICS] = { "METRICS", "/v1/metrics", "rejectedDataPoints" },
};

/* ---- settings ---- */

/* In place: the result is never longer. */
static int unescape_value(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (*at != '%') {
			*to++ = *at;
			continue;
		}
		if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
			return -1;
		const char hex[3] = { at[1], at[2], '\0' };
		*to++ = (char)strtol(hex, NULL, 16);
		at += 2;
	}
	*to = '\0';
	return 0;
}

/* A decoded %0D%0A in a value would add a header line of its own to the request. */
static bool is_printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static char *trim_blanks(char *s)
{
	s += strspn(s, " \t");
	for (size_t n = strlen(s); n && strchr(" \t", s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

int otlp_http_headers_each(const char *text, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	mem_auto char *copy = mem_strdup(text);
	char *rest = copy, *item;

	while ((item = strsep(&rest, ",")) != NULL) {
		item = trim_blanks(item);
		if (!*item)
			continue;
		char *value = strchr(item, '=');
		if (!value)
			return -1;
		*value++ = '\0';
		char *name = trim_blanks(item);
		value = trim_blanks(value);
		if (unescape_value(value) < 0 || !text_http_token(name) || !is_printable(value))
			return -1;
		fn(ctx, name, value);
	}
	return 0;
}

static void add_header(void *ctx, const char *name, const char *value)
{
	struct curl_slist **headers = ctx;
	struct buf buf_auto line = BUF_INIT;

	buf_str(&line, name);
	buf_str(&line, ": ");
	buf_str(&line, value);
	*headers = curl_slist_append(*headers, buf_cstr(&line));
}

#define VARIABLE_MAX 64

/* The value of the signal's own variable, or else of the one for all signals, or NULL; `variable` gets its name. */
static const char *find_setting(enum otlp_http_signal signal, const char *what, char variable[VARIABLE_MAX])
{
	const char *value;

	snprintf(variable, VARIABLE_MAX, "OTEL_EXPORTER_OTLP_%s_%s", signals[signal].name, what);
	value = getenv(variable);
	if (value && value[0])
		return value;
	snprintf(variable, VARIABLE_MAX, "OTEL_EXPORTER_OTLP_%s", what);
	value = getenv(variable);
	return value && value[0] ? value : NULL;
}

/*
 * libcurl's own parser decides: a URL that passes here but not there would fail at each request instead of once at the
 * start.
 */
static bool is_url(const char *text)
{
	CURLU *u = curl_url();
	char *host = NULL;
	bool good = u && curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK &&
		    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK && host[0];

	curl_free(host);
	curl_url_cleanup(u);
	return good;
}

static int set_url(struct otlp_http *p, enum otlp_http_signal signal, struct err *e)
{
	char variable[VARIABLE_MAX];
	const char *from = find_setting(signal, "ENDPOINT", variable);
	struct buf buf_auto url = BUF_INIT;

	if (!from)
		return 0;
	if (strncmp(from, "http://", 7) != 0 && strncmp(from, "https://", 8) != 0)
		return err_set(e, ERR_INVALID, "%s: '%.200s' does not start with http:// or https://", variable, from);
	if (!is_url(from))
		return err_set(e, ERR_INVALID, "%s: '%.200s' is not a URL with a host", variable, from);
	buf_str(&url, from);
	if (!strstr(variable, signals[signal].name)) { /* a signal-specific endpoint is used as it is */
		while (url.len && url.data[url.len - 1] == '/')
			url.len--;
		buf_str(&url, signals[signal].path);
	}
	p->to[signal].url = mem_strdup(buf_cstr(&url));
	return 0;
}

static int set_headers(struct otlp_http *p, enum otlp_http_signal signal, struct err *e)
{
	struct curl_slist **headers = &p->to[signal].headers;
	char variable[VARIABLE_MAX];
	const char *given = find_setting(signal, "HEADERS", variable);

	if (given && otlp_http_headers_each(given, add_header, headers) < 0)
		return err_set(e, ERR_INVALID, "%s: expected name=value,name=value", variable);
	*headers = curl_slist_append(*headers, "Content-Type: application/json");
	/*
	 * An empty header disables "Expect: 100-continue", which libcurl adds to long bodies and for which it waits up
	 * to a second.
	 */
	*headers = curl_slist_append(*headers, "Expect:");
	return 0;
}

static int set_timeout(struct otlp_http *p, enum otlp_http_signal signal, struct err *e)
{
	char variable[VARIABLE_MAX];
	uint64_t ms;

	(void)find_setting(signal, "TIMEOUT", variable);
	if (env_setting_ms(variable, TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX, &ms, e) < 0)
		return -1;
	p->to[signal].timeout = (long)ms;
	return 0;
}

/* Rejects settings that are not supported: another protocol, or other certificates than the system's. */
static int check_unsupported(enum otlp_http_signal signal, struct err *e)
{
	static const char *const keys[] = { "CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE" };
	char variable[VARIABLE_MAX];
	const char *protocol = find_setting(signal, "PROTOCOL", variable);

	if (protocol && strcmp(protocol, "http/json") != 0 && strcmp(protocol, "http/protobuf") != 0)
		return err_set(e, ERR_INVALID, "%s: '%.40s' is not supported; only http/json is", variable, protocol);
	for (size_t i = 0; i < countof(keys); i++)
		if (find_setting(signal, keys[i], variable))
			return err_set(e, ERR_INVALID, "%s: not supported; the system's certificates are used",
				       variable);
	return 0;
}

/* Reads OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER: otlp or none. */
static int set_enabled(struct otlp_http *p, enum otlp_http_signal signal, struct err *e)
{
	char variable[VARIABLE_MAX];

	snprintf(variable, sizeof(variable), "OTEL_%s_EXPORTER", signals[signal].name);
	const char *exporter = getenv(variable);
	if (!exporter || !exporter[0] || strcmp(exporter, "otlp") == 0)
		return 0;
	if (strcmp(exporter, "none") != 0)
		return err_set(e, ERR_INVALID, "%s: '%.40s' is not supported; expected otlp or none", variable,
			       exporter);
	free(mem_take(&p->to[signal].url));
	return 0;
}

static int set_signal(struct otlp_http *p, enum otlp_http_signal signal, struct err *e)
{
	if (set_url(p, signal, e) < 0 || set_enabled(p, signal, e) < 0)
		return -1;
	if (!p->to[signal].url)
		return 0;
	/* The other settings of a disabled signal are not checked: they have no effect. */
	return check_unsupported(signal, e) < 0 || set_headers(p, signal, e) < 0 || set_timeout(p, signal, e) < 0 ? -1
														  : 0;
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
	/* Only the beginning is kept. Returning less than size * n would abort the transfer. */
	struct buf *answer = ctx;
	size_t room = ANSWER_MAX - answer->len;

	buf_append(answer, data, size * n < room ? size * n : room);
	return size * n;
}

int otlp_http_new(struct otlp_http **ret, struct err *e)
{
	struct otlp_http *p = mem_zalloc(1, sizeof(*p));

	p->answer = BUF_INIT;
	for (int i = 0; i < OTLP_HTTP_SIGNALS; i++)
		if (set_signal(p, (enum otlp_http_signal)i, e) < 0)
			goto failed;
	p->curl = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_easy_init() : NULL;
	if (!p->curl) {
		err_set(e, ERR_INTERNAL, "libcurl cannot be initialised");
		goto failed;
	}
	curl_easy_setopt(p->curl, CURLOPT_POST, 1L);
	/* Without this libcurl may use SIGALRM for the timeout of name resolution. */
	curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
	/* A redirect must not send credentials to another server. */
	curl_easy_setopt(p->curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "bailiff/" BAILIFF_VERSION);
	curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->problem);
	curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, &p->answer);
	*ret = p;
	return 0;
failed:
	otlp_http_free(p);
	return -1;
}

void otlp_http_free(struct otlp_http *p)
{
	if (p->curl)
		curl_easy_cleanup(p->curl);
	for (int i = 0; i < OTLP_HTTP_SIGNALS; i++) {
		curl_slist_free_all(p->to[i].headers);
		free(p->to[i].url);
	}
	buf_done(&p->answer);
	free(p);
}

bool otlp_http_wanted(const struct otlp_http *p, enum otlp_http_signal signal) { return p->to[signal].url != NULL; }

/* ---- sending ---- */

/* {"partialSuccess":{"rejectedSpans":"3","errorMessage":"…"}}; with 0 rejected, the message is only a warning. */
static enum otlp_http_result read_partial_success(const struct otlp_http *p, enum otlp_http_signal signal,
						  struct err *e)
{
	struct jval part = jval_get(jval_of(p->answer.data, p->answer.len), "partialSuccess"),
		    rejected = jval_get(part, signals[signal].rejected);
	char why[256], text[32];

	jval_str(jval_get(part, "errorMessage"), why, sizeof(why));
	/* OTLP/JSON encodes 64-bit numbers as strings, but some collectors send numbers. */
	jval_str(rejected, text, sizeof(text));
	uint64_t number = rejected.type == JT_STRING ? strtoull(text, NULL, 10) : jval_uint(rejected, 0);
	/* Accepted as a whole: a message then is only a warning, and nothing was dropped. */
	if (!number && why[0])
		log_warning("the endpoint accepted the request with a warning: %s", why);
	if (!number)
		return OTLP_HTTP_DONE;
	err_set(e, ERR_UNAVAILABLE, "%llu rejected: %s", (unsigned long long)number,
		why[0] ? why : "(no reason given)");
	return OTLP_HTTP_PARTLY;
}

enum otlp_http_result otlp_http_send(struct otlp_http *p, enum otlp_http_signal signal, const struct buf *body,
				     uint64_t *ret_wait_ms, struct err *e)
{
	long status = 0;

	*ret_wait_ms = 0;
	buf_reset(&p->answer);
	p->problem[0] = '\0';
	curl_easy_setopt(p->curl, CURLOPT_URL, p->to[signal].url);
	curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->to[signal].headers);
	curl_easy_setopt(p->curl, CURLOPT_TIMEOUT_MS, p->to[signal].timeout);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, body->data);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	CURLcode r = curl_easy_perform(p->curl);
	if (r != CURLE_OK) {
		/* The request may have arrived all the same. Sending it again is safe: the span ids are the same. */
		err_set(e, ERR_UNAVAILABLE, "%s", p->problem[0] ? p->problem : curl_easy_strerror(r));
		return OTLP_HTTP_LATER;
	}
	curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
	curl_off_t after = 0;

	if (status >= 200 && status < 300)
		return read_partial_success(p, signal, e);
	err_set(e, ERR_UNAVAILABLE, "the endpoint returned status %ld: %.300s", status,
		p->answer.len ? buf_cstr(&p->answer) : "(nothing)");
	/*
	 * The specification's list of statuses to retry. Everything else is final, including 500: the same body would
	 * fail again, and later events would never be exported.
	 */
	if (!(status == 429 || status == 502 || status == 503 || status == 504))
		return OTLP_HTTP_REFUSED;
	if (curl_easy_getinfo(p->curl, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0)
		*ret_wait_ms = after < WAIT_MAX_MS / 1000 ? (uint64_t)after * 1000 : WAIT_MAX_MS;
	return OTLP_HTTP_LATER;
}

int env_setting_ms(const char *variable, uint64_t otherwise, uint64_t most, uint64_t *ret, struct err *e)
{
	const char *text = getenv(variable);
	char *end;

	if (!text || !text[0]) {
		*ret = otherwise;
		return 0;
	}
	errno = 0;
	uint64_t n = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
	if (!n || *end || errno || n > most)
		return err_set(e, ERR_INVALID, "%s: '%.50s' is not a number of milliseconds from 1 to %llu", variable,
			       text, (unsigned long long)most);
	*ret = n;
	return 0;
}
