#include "supervisor/otlp/post.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/otlp/setting.h"

#include <ctype.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 10000
#define TIMEOUT_MS_MAX 600000
#define ANSWER_MAX 4096u  /* of what an endpoint says about a refusal */
#define WAIT_MAX_MS (60u * 1000)

struct post {
	CURL *curl;
	char *url[POST_SIGNALS];
	struct curl_slist *headers;
	struct buf answer;
	char problem[CURL_ERROR_SIZE];
};

static const struct { const char *variable, *path; } signals[POST_SIGNALS] = {
	[POST_TRACES] = { "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces" },
	[POST_METRICS] = { "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "/v1/metrics" },
};

/* ---- settings ---- */

static int unescape(char *text)
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

static bool is_printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static char *trimmed(char *s)
{
	s += strspn(s, " \t");
	for (size_t n = strlen(s); n && strchr(" \t", s[n - 1]); n--)
		s[n - 1] = '\0';
	return s;
}

int post_headers_each(const char *text, void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
	mem_auto char *copy = mem_strdup(text);
	char *rest = copy, *item;

	while ((item = strsep(&rest, ",")) != NULL) {
		item = trimmed(item);
		if (!*item)
			continue;
		char *value = strchr(item, '=');
		if (!value)
			return -1;
		*value++ = '\0';
		char *name = trimmed(item);
		value = trimmed(value);
		if (unescape(value) < 0 || !text_http_token(name) || !is_printable(value))
			return -1;
		fn(ctx, name, value);
	}
	return 0;
}

static void add_header(void *ctx, const char *name, const char *value)
{
	struct post *p = ctx;
	struct buf buf_auto line = BUF_INIT;

	buf_str(&line, name);
	buf_str(&line, ": ");
	buf_str(&line, value);
	p->headers = curl_slist_append(p->headers, buf_cstr(&line));
}

static bool is_url(const char *text)
{
	CURLU *u = curl_url();
	char *host = NULL;
	bool good = u && curl_url_set(u, CURLUPART_URL, text, 0) == CURLUE_OK && curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK && host[0];

	curl_free(host);
	curl_url_cleanup(u);
	return good;
}

static int set_url(struct post *p, enum post_signal signal, struct err *e)
{
	const char *own = getenv(signals[signal].variable), *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	const char *from = own && own[0] ? own : base, *variable = from == own ? signals[signal].variable : "OTEL_EXPORTER_OTLP_ENDPOINT";
	struct buf buf_auto url = BUF_INIT;

	if (!from || !from[0])
		return 0;
	if (strncmp(from, "http://", 7) != 0 && strncmp(from, "https://", 8) != 0)
		return err_set(e, ERR_INVALID, "%s: '%.200s' does not start with http:// or https://", variable, from);
	if (!is_url(from))
		return err_set(e, ERR_INVALID, "%s: '%.200s' is no URL with a host", variable, from);
	buf_str(&url, from);
	if (from != own) {
		while (url.len && url.data[url.len - 1] == '/')
			url.len--;
		buf_str(&url, signals[signal].path);
	}
	p->url[signal] = mem_strdup(buf_cstr(&url));
	return 0;
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
	struct buf *answer = ctx;
	size_t room = ANSWER_MAX - answer->len;

	buf_append(answer, data, size * n < room ? size * n : room);
	return size * n;
}

static void set_up(struct post *p, long timeout)
{
	p->headers = curl_slist_append(p->headers, "Content-Type: application/json");
	p->headers = curl_slist_append(p->headers, "Expect:");
	curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->headers);
	curl_easy_setopt(p->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(p->curl, CURLOPT_TIMEOUT_MS, timeout);
	curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(p->curl, CURLOPT_FOLLOWLOCATION, 0L); /* credentials stay where they were sent */
	curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "bailiff/" BAILIFF_VERSION);
	curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->problem);
	curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, &p->answer);
}

int post_new(struct post **ret, struct err *e)
{
	struct post *p = mem_zalloc(1, sizeof(*p));
	const char *headers = getenv("OTEL_EXPORTER_OTLP_HEADERS");
	uint64_t timeout;

	p->answer = BUF_INIT;
	for (int i = 0; i < POST_SIGNALS; i++)
		if (set_url(p, (enum post_signal)i, e) < 0)
			goto failed;
	if (setting_ms("OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT_MS_DEFAULT, TIMEOUT_MS_MAX, &timeout, e) < 0)
		goto failed;
	if (headers && post_headers_each(headers, add_header, p) < 0) {
		err_set(e, ERR_INVALID, "OTEL_EXPORTER_OTLP_HEADERS: not of the form name=value,name=value");
		goto failed;
	}
	p->curl = curl_global_init(CURL_GLOBAL_DEFAULT) == 0 ? curl_easy_init() : NULL;
	if (!p->curl) {
		err_set(e, ERR_INTERNAL, "libcurl does not start");
		goto failed;
	}
	set_up(p, (long)timeout);
	*ret = p;
	return 0;
failed:
	post_free(p);
	return -1;
}

void post_free(struct post *p)
{
	if (p->curl)
		curl_easy_cleanup(p->curl);
	curl_slist_free_all(p->headers);
	for (int i = 0; i < POST_SIGNALS; i++)
		free(p->url[i]);
	buf_done(&p->answer);
	free(p);
}

bool post_wanted(const struct post *p, enum post_signal signal)
{
	return p->url[signal] != NULL;
}

/* ---- posting ---- */

static bool may_be_sent_again(long status)
{
	return status == 429 || status == 502 || status == 503 || status == 504;
}

static enum post_result answered(struct post *p, long status, uint64_t *ret_wait_ms, struct err *e)
{
	curl_off_t after = 0;

	if (status >= 200 && status < 300)
		return POST_DONE;
	err_set(e, ERR_UNAVAILABLE, "the endpoint answered %ld: %.300s", status, p->answer.len ? buf_cstr(&p->answer) : "(nothing)");
	if (!may_be_sent_again(status))
		return POST_REFUSED;
	if (curl_easy_getinfo(p->curl, CURLINFO_RETRY_AFTER, &after) == CURLE_OK && after > 0)
		*ret_wait_ms = (uint64_t)after * 1000 < WAIT_MAX_MS ? (uint64_t)after * 1000 : WAIT_MAX_MS;
	return POST_LATER;
}

enum post_result post_send(struct post *p, enum post_signal signal, const struct buf *body, uint64_t *ret_wait_ms, struct err *e)
{
	long status = 0;

	*ret_wait_ms = 0;
	buf_reset(&p->answer);
	p->problem[0] = '\0';
	curl_easy_setopt(p->curl, CURLOPT_URL, p->url[signal]);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, body->data);
	curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	CURLcode r = curl_easy_perform(p->curl);
	if (r != CURLE_OK) {
		err_set(e, ERR_UNAVAILABLE, "%s", p->problem[0] ? p->problem : curl_easy_strerror(r));
		return POST_LATER;
	}
	curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
	return answered(p, status, ret_wait_ms, e);
}
