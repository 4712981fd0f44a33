#include "supervisor/model/transfer.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/plan.h"
#include "supervisor/model/model.h"
#include "supervisor/model/model_input.h"
#include "supervisor/model/redactor.h"
#include "supervisor/model/response_head.h"
#include "supervisor/model/stream_activity.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define POLL_MS 1000
#define UNAUTHORIZED 401

struct transfer {
	const struct transfer_options *o;
	struct model_failure *failure;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	struct curl_slist key_header; /* the list's first: its text is among the secrets, not a copy of libcurl's */
	char problem[CURL_ERROR_SIZE];
	const char *stage;
	char proxy_says[256]; /* why it did not connect */
	bool unresolved;      /* because it did not find the name */
	bool resend, renewed;
	struct buf head, chunk;
	uint64_t body_bytes;
	bool events; /* the response is a stream of server-sent events */
	struct stream_activity activity;
	/* Boot time in milliseconds: of the beginning, of this attempt, and of the last byte and the last data. */
	uint64_t began, attempted, active, data;
	curl_off_t sent;
};

__attribute__((format(printf, 4, 5))) static int fail(struct transfer *t, const char *category, bool retryable,
						      const char *fmt, ...)
{
	va_list ap;

	if (t->failure->category)
		return -1;
	t->failure->category = category;
	t->failure->stage = t->stage;
	t->failure->retryable = retryable;
	va_start(ap, fmt);
	vsnprintf(t->failure->message, sizeof t->failure->message, fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- the response ---- */

static int write_redacted(struct transfer *t, const void *p, size_t n, bool end)
{
	buf_reset(&t->chunk);
	redactor_feed(t->o->redactor, p, n, end, &t->chunk);
	if (t->chunk.len && fd_write_all(t->o->out, t->chunk.data, t->chunk.len) < 0)
		return fail(t, "protocol", false, "the response cannot be written: its reader has gone");
	return 0;
}

/* 1: there is another key. */
static int renew_key(struct transfer *t)
{
	struct key *key = t->o->secrets->key;
	struct err e = ERR_INIT;

	if (t->renewed || t->o->reader->sock < 0)
		return 0;
	t->renewed = true;
	if (key_reader_read(t->o->reader, &key[1], &e) < 0) {
		t->stage = MODEL_STAGE_KEY;
		return fail(t, "key", e.code == ERR_UNAVAILABLE,
			    "the server rejected the key, and it cannot be read again: %s", e.message);
	}
	if (strcmp(key[0].text, key[1].text) == 0)
		return 0;
	redactor_add(t->o->redactor, key[1].text);
	return 1;
}

static int end_head(struct transfer *t)
{
	buf_auto struct buf line = BUF_INIT;
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200) {
		buf_reset(&t->head); /* of an interim response */
		return 0;
	}
	if (status == UNAUTHORIZED) {
		int r = renew_key(t);

		t->resend = r > 0;
		if (r != 0)
			return -1;
	}
	buf_reset(&t->chunk);
	redactor_feed(t->o->redactor, t->head.data, t->head.len, true, &t->chunk);
	t->events = response_head_json(status, buf_cstr(&t->chunk), &line);
	t->stage = MODEL_STAGE_RESPONSE;
	t->active = t->data = clock_boot_ms();
	if (fd_write_all(t->o->out, line.data, line.len) < 0)
		return fail(t, "protocol", false, "the response cannot be written: its reader has gone");
	return 0;
}

/* Proxy-Status: bailiff; error=dns_error; details="…" */
static void read_proxy_status(struct transfer *t, const char *line, size_t n)
{
	static const char name[] = "proxy-status:", details[] = "details=\"";
	mem_auto char *text = mem_strndup(line, n);
	const char *why = strncasecmp(text, name, strlen(name)) == 0 ? strstr(text, details) : NULL;

	if (!why)
		return;
	why += strlen(details);
	snprintf(t->proxy_says, sizeof t->proxy_says, "%.*s", (int)strcspn(why, "\"\r\n"), why);
	t->unresolved = strstr(text, "error=dns_error") != NULL;
}

/*
 * One line of a head: of the proxy's, of the response's, or of trailers, which are ignored. Returning another length
 * aborts the transfer.
 */
static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;

	n *= size;
	t->active = clock_boot_ms();
	if (strcmp(t->stage, MODEL_STAGE_CONNECT) == 0)
		read_proxy_status(t, line, n);
	if (strcmp(t->stage, MODEL_STAGE_REQUEST) != 0)
		return n;
	if (n <= 2 && line[0] != ' ')
		return end_head(t) < 0 ? 0 : n;
	if (t->head.len + n > TRANSFER_HEAD_MAX) {
		fail(t, "protocol", false, "the head of the response is longer than %u bytes", TRANSFER_HEAD_MAX);
		return 0;
	}
	if (strncmp(line, "HTTP/", 5) == 0)
		buf_reset(&t->head);
	else
		buf_append(&t->head, line, n);
	return n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
	struct transfer *t = ctx;

	n *= size;
	t->body_bytes += n;
	if (t->body_bytes > TRANSFER_BODY_MAX) {
		fail(t, "protocol", false, "the response is longer than %u bytes", TRANSFER_BODY_MAX);
		return 0;
	}
	if (write_redacted(t, p, n, false) < 0)
		return 0;
	/* After the write, which waits for a slow reader: the server is not to blame for that. */
	t->active = clock_boot_ms();
	if (!t->events || stream_activity_feed(&t->activity, p, n))
		t->data = t->active;
	return n;
}

/* ---- the request ---- */

static int on_connected(void *ctx, char *remote, char *local, int remote_port, int local_port)
{
	struct transfer *t = ctx;

	t->stage = MODEL_STAGE_REQUEST;
	t->active = clock_boot_ms();
	return CURL_PREREQFUNC_OK;
}

static int on_progress(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
	struct transfer *t = ctx;

	if (up != t->sent)
		t->active = clock_boot_ms();
	t->sent = up;
	return 0;
}

static bool has_header(const struct model_input *in, const char *name)
{
	const size_t n = strlen(name);

	for (size_t i = 0; i < in->nheaders; i++)
		if (strncasecmp(in->header[i], name, n) == 0 && (in->header[i][n] == ':' || in->header[i][n] == ';'))
			return true;
	return false;
}

static void set_headers(struct transfer *t)
{
	const struct model_input *in = t->o->input;

	for (size_t i = 0; i < in->nheaders; i++)
		t->headers = curl_slist_append(t->headers, in->header[i]);
	if (!has_header(in, "Content-Type"))
		t->headers = curl_slist_append(t->headers, "Content-Type: application/json");
	t->headers = curl_slist_append(t->headers, "Expect:");
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
	/* The headers are for the server, not for the proxy. */
	curl_easy_setopt(t->easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
	if (!has_header(in, "User-Agent"))
		curl_easy_setopt(t->easy, CURLOPT_USERAGENT, "bailiff/" BAILIFF_VERSION);
}

static void set_key(struct transfer *t, const struct key *key)
{
	const struct model_input *in = t->o->input;
	struct transfer_secrets *s = t->o->secrets;

	if (!key->text[0])
		return;
	snprintf(s->line, sizeof s->line, "%s: %s%s", in->key_header, in->key_prefix ? in->key_prefix : "", key->text);
	t->key_header = (struct curl_slist){ .data = s->line, .next = t->headers };
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, &t->key_header);
}

/*
 * The proxy is the only way out of the sandbox, so variables like NO_PROXY, which are about servers inside, are
 * ignored. A tunnel is used for http too, so that a refusal of the proxy is not mistaken for the provider's response.
 * Redirects are not followed: key and conversation go only to the configured address.
 */
static void set_route(struct transfer *t)
{
	const struct model_input *in = t->o->input;
	mem_auto char *proxy = mem_printf("http://127.0.0.1:%u", PLAN_PROXY_PORT);

	curl_easy_setopt(t->easy, CURLOPT_URL, in->url);
	curl_easy_setopt(t->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(t->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(t->easy, CURLOPT_PROXY, in->direct ? "" : proxy);
	curl_easy_setopt(t->easy, CURLOPT_NOPROXY, "");
	curl_easy_setopt(t->easy, CURLOPT_HTTPPROXYTUNNEL, in->direct ? 0L : 1L);
	curl_easy_setopt(t->easy, CURLOPT_IPRESOLVE, (long)CURL_IPRESOLVE_V4); /* the role has no other sockets */
	curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
	/* libcurl's own limit, 5 minutes by default, must not be the first. */
	curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)in->timeouts.connect_ms + 60000);
	if (t->o->authorities->len) {
		struct curl_blob pem = { t->o->authorities->data, t->o->authorities->len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(t->easy, CURLOPT_CAINFO_BLOB, &pem);
		curl_easy_setopt(t->easy, CURLOPT_CAPATH, NULL); /* these authorities only */
	}
}

static int set_up(struct transfer *t)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(t->easy = curl_easy_init()) ||
	    !(t->multi = curl_multi_init()))
		return fail(t, "protocol", false, "libcurl cannot be initialised");
	set_route(t);
	set_headers(t);
	if (t->o->input->method && strcmp(t->o->input->method, "POST") != 0) {
		curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
		curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, t->o->input->method);
	} else {
		curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, buf_cstr(t->o->body));
		curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->o->body->len);
	}
	curl_easy_setopt(t->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, t->problem);
	curl_easy_setopt(t->easy, CURLOPT_PREREQFUNCTION, on_connected);
	curl_easy_setopt(t->easy, CURLOPT_PREREQDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(t->easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(t->easy, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(t->easy, CURLOPT_XFERINFODATA, t);
	curl_easy_setopt(t->easy, CURLOPT_NOPROGRESS, 0L);
	return 0;
}

/* ---- time ---- */

/* How long the transfer may go on without news; what has timed out if it is 0. */
static uint64_t remaining_ms(const struct transfer *t, const char **ret_what, uint64_t *ret_limit)
{
	const struct model_input *in = t->o->input;
	const bool connecting = strcmp(t->stage, MODEL_STAGE_CONNECT) == 0;
	const bool responding = strcmp(t->stage, MODEL_STAGE_RESPONSE) == 0;
	const struct {
		bool counts;
		const char *what;
		uint64_t since, limit;
	} timers[] = {
		{ true, "the request took too long", t->began, in->timeouts.total_ms },
		{ connecting, "no connection", t->attempted, in->timeouts.connect_ms },
		{ !connecting && !responding, "no response", t->active, in->timeouts.first_byte_ms },
		{ responding, "the response stalled", t->active, in->timeouts.idle_ms },
		{ responding, "the response has only keep-alives", t->data, in->timeouts.silent_ms },
	};
	const uint64_t now = clock_boot_ms();
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < countof(timers); i++) {
		const uint64_t end = timers[i].since + timers[i].limit, left = end > now ? end - now : 0;

		if (!timers[i].counts || left >= least)
			continue;
		least = left;
		*ret_what = timers[i].what;
		*ret_limit = timers[i].limit;
	}
	return least;
}

/* 0: the transfer ended, with *ret. −1: it failed by itself. */
static int perform(struct transfer *t, CURLcode *ret)
{
	const char *what = NULL;
	uint64_t limit = 0;

	for (int running = 1;;) {
		CURLMcode m = curl_multi_perform(t->multi, &running);

		if (m != CURLM_OK)
			return fail(t, "protocol", false, "libcurl: %s", curl_multi_strerror(m));
		if (!running)
			break;
		const uint64_t left = remaining_ms(t, &what, &limit);
		if (!left)
			return fail(t, "timeout", true, "%s within %llu ms", what, (unsigned long long)limit);
		curl_multi_poll(t->multi, NULL, 0, left < POLL_MS ? (int)left : POLL_MS, NULL);
	}
	int rest;
	const CURLMsg *msg = curl_multi_info_read(t->multi, &rest);
	*ret = msg ? msg->data.result : CURLE_RECV_ERROR;
	return 0;
}

/* ---- failures ---- */

static int fail_tunnel(struct transfer *t, long status)
{
	const char *why = t->proxy_says[0] ? t->proxy_says : "the sandbox's proxy cannot connect";

	if (status == 403)
		return fail(t, "proxy", false, "the sandbox's network rules: %s", why);
	if (status == 504)
		return fail(t, "timeout", true, "%s", why);
	return fail(t, t->unresolved ? "dns" : "connect", true, "%s", why);
}

static int fail_curl(struct transfer *t, CURLcode code)
{
	static const struct {
		CURLcode code;
		const char *category;
		bool retryable;
	} rows[] = {
		{ CURLE_COULDNT_RESOLVE_HOST, "dns", true },
		{ CURLE_COULDNT_RESOLVE_PROXY, "proxy", false },
		{ CURLE_PROXY, "proxy", true },
		{ CURLE_SSL_CONNECT_ERROR, "tls", true }, /* also a connection that breaks in the handshake */
		{ CURLE_PEER_FAILED_VERIFICATION, "tls", false },
		{ CURLE_SSL_CERTPROBLEM, "tls", false },
		{ CURLE_SSL_CIPHER, "tls", false },
		{ CURLE_SSL_CACERT_BADFILE, "tls", false },
		{ CURLE_SSL_ISSUER_ERROR, "tls", false },
		{ CURLE_SSL_INVALIDCERTSTATUS, "tls", false },
		{ CURLE_URL_MALFORMAT, "input", false },
		{ CURLE_UNSUPPORTED_PROTOCOL, "protocol", false }, /* HTTP/0.9 too */
		{ CURLE_WEIRD_SERVER_REPLY, "protocol", false },
		{ CURLE_BAD_CONTENT_ENCODING, "protocol", false },
		{ CURLE_OPERATION_TIMEDOUT, "timeout", true },
	};
	const char *why = t->problem[0] ? t->problem : curl_easy_strerror(code);
	long tunnel = 0;

	curl_easy_getinfo(t->easy, CURLINFO_HTTP_CONNECTCODE, &tunnel);
	if (strcmp(t->stage, MODEL_STAGE_CONNECT) == 0 && tunnel >= 300)
		return fail_tunnel(t, tunnel);
	if (code == CURLE_COULDNT_CONNECT && !t->o->input->direct)
		return fail(t, "proxy", true, "the sandbox's proxy: %s", why);
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].code == code)
			return fail(t, rows[i].category, rows[i].retryable, "%s", why);
	return fail(t, "connect", true, "%s", why); /* not connected, or the connection broke */
}

/* ---- one request, or two ---- */

static int attempt(struct transfer *t, const struct key *key)
{
	CURLcode code = CURLE_OK;

	t->stage = MODEL_STAGE_CONNECT;
	t->attempted = t->active = clock_boot_ms();
	t->sent = 0;
	t->resend = false;
	buf_reset(&t->head);
	set_key(t, key);
	curl_multi_add_handle(t->multi, t->easy);
	int r = perform(t, &code);
	curl_multi_remove_handle(t->multi, t->easy); /* closes an open connection */
	if (r == 0 && code != CURLE_OK && !t->resend)
		r = fail_curl(t, code);
	return r;
}

int transfer_run(const struct transfer_options *o, struct model_failure *ret)
{
	struct transfer t = { .o = o, .failure = ret, .stage = MODEL_STAGE_CONNECT, .began = clock_boot_ms() };
	int r = set_up(&t);

	if (r == 0)
		r = attempt(&t, &o->secrets->key[0]);
	if (r == 0 && t.resend)
		r = attempt(&t, &o->secrets->key[1]);
	if (write_redacted(&t, "", 0, true) < 0)
		r = -1;
	if (r == 0 && strcmp(t.stage, MODEL_STAGE_RESPONSE) != 0)
		r = fail(&t, "protocol", true, "the connection ended without a response");
	curl_easy_cleanup(t.easy);
	curl_multi_cleanup(t.multi);
	curl_slist_free_all(t.headers);
	buf_done(&t.head);
	buf_done(&t.chunk);
	return r;
}
