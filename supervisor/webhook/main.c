#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/engine/hook/hook_http.h"
#include "sandbox/plan.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/webhook/webhook.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define INPUT_MAX (64u << 20)
#define ANSWER_MAX (1u << 20) /* the same limit as for the output of a hook */
#define SHOWN 200

/* One request. The program ends after it, so nothing is reused. */
struct sending {
	CURL *curl;
	struct curl_slist *headers;
	bool typed; /* the configured headers contain a Content-Type */
	bool too_much;
	struct buf body, answer;
	char problem[CURL_ERROR_SIZE];
};

static int exit_with_error(const char *what, const char *why)
{
	fprintf(stderr, "%s%s%s\n", what, why[0] ? ": " : "", why);
	return 1;
}

static const char *read_variable(const char *name) { return getenv(name); }

static void add_header(void *ctx, const char *line)
{
	struct sending *s = ctx;

	s->typed |= strncasecmp(line, "Content-Type", 12) == 0 && (line[12] == ':' || line[12] == ';');
	s->headers = curl_slist_append(s->headers, line);
}

static size_t on_answer(char *data, size_t size, size_t n, void *ctx)
{
	struct sending *s = ctx;

	if (size * n > ANSWER_MAX - s->answer.len) {
		s->too_much = true;
		/*
		 * Less than was passed: libcurl aborts the transfer. A truncated answer could be a different decision.
		 */
		return 0;
	}
	buf_append(&s->answer, data, size * n);
	return size * n;
}

/* Reads the hook's input from stdin to its end. */
static int read_input(struct buf *out)
{
	for (;;) {
		ssize_t n = read(STDIN_FILENO, buf_reserve(out, 65536), 65536);

		if (n <= 0)
			return n < 0 ? -1 : 0;
		buf_extend(out, (size_t)n);
		if (out->len > INPUT_MAX)
			return -1;
	}
}

static int print_status(long status, const struct buf *answer)
{
	char what[32], why[SHOWN + 1];
	size_t n = 0;

	for (; n < answer->len && n < SHOWN && (unsigned char)answer->data[n] >= 0x20; n++)
		why[n] = answer->data[n];
	why[n] = '\0';
	snprintf(what, sizeof what, "HTTP %ld", status);
	return exit_with_error(what, why);
}

static int send_input(struct sending *s, const char *url)
{
	long status = 0;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0 || !(s->curl = curl_easy_init()))
		return exit_with_error("libcurl cannot be initialised", "");
	/*
	 * The proxy is the only way out of the sandbox, so NO_PROXY, which is about servers inside, is ignored.
	 * Redirects are not followed: the input must go only to the configured address.
	 */
	mem_auto char *proxy = mem_printf("http://127.0.0.1:%u", PLAN_PROXY_PORT);
	if (!s->typed)
		s->headers = curl_slist_append(s->headers, "Content-Type: application/json");
	s->headers = curl_slist_append(s->headers, "Expect:");
	curl_easy_setopt(s->curl, CURLOPT_URL, url);
	curl_easy_setopt(s->curl, CURLOPT_PROXY, proxy);
	curl_easy_setopt(s->curl, CURLOPT_NOPROXY, "");
	curl_easy_setopt(s->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(s->curl, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
	curl_easy_setopt(s->curl, CURLOPT_HEADEROPT,
			 (long)CURLHEADER_SEPARATE); /* the headers are for the server, not for the proxy */
	curl_easy_setopt(s->curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(s->curl, CURLOPT_POST, 1L);
	curl_easy_setopt(s->curl, CURLOPT_POSTFIELDS, buf_cstr(&s->body));
	curl_easy_setopt(s->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body.len);
	curl_easy_setopt(s->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(s->curl, CURLOPT_USERAGENT, "bailiff/" BAILIFF_VERSION);
	curl_easy_setopt(s->curl, CURLOPT_ERRORBUFFER, s->problem);
	curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
	CURLcode r = curl_easy_perform(s->curl);
	if (s->too_much)
		return exit_with_error("the response is too long", "");
	if (r != CURLE_OK)
		return exit_with_error("no response", s->problem[0] ? s->problem : curl_easy_strerror(r));
	curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || status > 299)
		return print_status(status, &s->answer);
	return fd_write_all(STDOUT_FILENO, s->answer.data, s->answer.len) < 0;
}

int main(void)
{
	const char *url = getenv(HOOK_HTTP_URL), *headers = getenv(HOOK_HTTP_HEADERS), *allowed = getenv(HOOK_HTTP_ENV);
	const struct role_sandbox_path certificates[] = ROLE_SANDBOX_CERTIFICATES;
	struct sending s = { .body = BUF_INIT, .answer = BUF_INIT };
	struct err e = ERR_INIT;

	if (!url)
		return exit_with_error("bailiffd runs this for hooks of type http", HOOK_HTTP_URL " is not set");
	if (webhook_headers(headers ? headers : "{}", allowed ? allowed : "", read_variable, add_header, &s, &e) < 0)
		return exit_with_error("headers", e.message);
	if (read_input(&s.body) < 0)
		return exit_with_error("read the hook's input", "");
	if (role_sandbox_enter(ROLE_SANDBOX_WEBHOOK, certificates, countof(certificates), &e) < 0)
		return exit_with_error(e.message, "");
	int r = send_input(&s, url);
	if (s.curl)
		curl_easy_cleanup(s.curl);
	curl_slist_free_all(s.headers);
	buf_done(&s.body);
	buf_done(&s.answer);
	return r;
}
