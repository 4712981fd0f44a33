#include "supervisor/gateway/http/console_files.h"

#include "runtime/base/buf.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/console_secret.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_server.h"

#include <string.h>

#define NONCE_PLACE "__NONCE__"

static const struct {
	const char *name, *type;
	size_t len;
	const char *bytes;
} files[] = {
#define FILE(name, type, len, bytes) { name, type, len, bytes },
#include <console_files.inc> /* generated: build/gen */
#undef FILE
};

/*
 * xterm.js adds <style> elements: the page stamps them with the nonce. No 'unsafe-inline', no eval, and no string
 * becomes HTML or script except through the page's own policy "bailiff".
 */
static void write_policy(const char *nonce, struct buf *out)
{
	buf_printf(out,
		   "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' data:; "
		   "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
		   "require-trusted-types-for 'script'; trusted-types bailiff",
		   nonce);
}

static void add_headers(struct http_exchange *x)
{
	http_exchange_header(x, "Cache-Control", "no-cache");
	http_exchange_header(x, "Referrer-Policy", "no-referrer");
	http_exchange_header(x, "Cross-Origin-Opener-Policy", "same-origin");
	http_exchange_header(x, "Cross-Origin-Resource-Policy", "same-origin");
}

static void reply_index(struct http_exchange *x, const char *bytes, size_t len)
{
	const char *place = memmem(bytes, len, NONCE_PLACE, strlen(NONCE_PLACE));
	buf_auto struct buf page = BUF_INIT, policy = BUF_INIT;
	char nonce[CONSOLE_SECRET_TEXT];

	console_secret_new(nonce);
	write_policy(nonce, &policy);
	http_exchange_header(x, "Content-Security-Policy", policy.data);
	buf_append(&page, bytes, place ? (size_t)(place - bytes) : len);
	if (place) {
		buf_str(&page, nonce);
		place += strlen(NONCE_PLACE);
		buf_append(&page, place, len - (size_t)(place - bytes));
	}
	http_exchange_reply(x, 200, "text/html; charset=utf-8", page.data, page.len);
}

static void reply_file(struct http_exchange *x, const char *type, const char *bytes, size_t len)
{
	const struct http_request *r = http_exchange_request(x);
	buf_auto struct buf given = BUF_INIT;
	char hash[HASH_SHA256_TEXT], etag[40];

	hash_sha256_text(bytes, len, hash);
	snprintf(etag, sizeof(etag), "\"%.32s\"", hash);
	http_exchange_header(x, "ETag", etag);
	http_exchange_header(x, "Vary", "Accept-Encoding");
	/* For worker.js: a shared worker has the policy of its own script, not of the page that starts it. */
	http_exchange_header(x, "Content-Security-Policy",
			     "default-src 'none'; script-src 'self'; connect-src 'self'; "
			     "require-trusted-types-for 'script'; trusted-types 'none'");
	if (http_request_lists(r, "If-None-Match", etag))
		return http_exchange_reply(x, 304, NULL, NULL, 0);
	/* A request without the header accepts every encoding (RFC 9110, section 12.5.3). */
	if (http_request_header(r, "Accept-Encoding", &given) && !http_request_lists(r, "Accept-Encoding", "gzip"))
		return http_exchange_refuse(x, 406, "this file is sent only with Content-Encoding gzip");
	http_exchange_header(x, "Content-Encoding", "gzip");
	http_exchange_reply(x, 200, type, bytes, len);
}

static void handle_file(void *ctx, struct http_exchange *x)
{
	const char *name = http_exchange_request(x)->path + strlen(CONSOLE_PATH);

	add_headers(x);
	if (!*name || strcmp(name, "index.html") == 0)
		name = "index.html";
	for (size_t i = 0; i < countof(files); i++)
		if (strcmp(files[i].name, name) == 0)
			return strcmp(name, "index.html") == 0
				       ? reply_index(x, files[i].bytes, files[i].len)
				       : reply_file(x, files[i].type, files[i].bytes, files[i].len);
	http_exchange_refuse(x, 404, "the console has no such file");
}

void console_files_serve(struct http_server *server)
{
	http_server_route(server,
			  &(struct http_route){ .path = CONSOLE_PATH,
						.prefix = true,
						.methods = "GET, HEAD",
						.open = true,
						.body_bytes = HTTP_ANONYMOUS_BYTES,
						.handle = handle_file },
			  NULL);
}
