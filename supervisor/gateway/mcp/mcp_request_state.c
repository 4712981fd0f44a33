#include "supervisor/gateway/mcp/mcp_request_state.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>

#define BLOCK 64u

/* HMAC-SHA256 (RFC 2104) with a key of 32 bytes. */
static void hmac_state(const uint8_t key[32], const struct buf *text, uint8_t out[32])
{
	buf_auto struct buf inner = BUF_INIT, outer = BUF_INIT;

	for (size_t i = 0; i < BLOCK; i++) {
		uint8_t k = i < 32 ? key[i] : 0;
		buf_byte(&inner, (char)(k ^ 0x36));
		buf_byte(&outer, (char)(k ^ 0x5c));
	}
	buf_append(&inner, buf_cstr(text), text->len);
	hash_sha256(inner.data, inner.len, out);
	buf_append(&outer, out, 32);
	hash_sha256(outer.data, outer.len, out);
}

/* Netstring encoding, so that different sequences of fields never have the same bytes. */
static void add_field(struct buf *to, const char *s) { buf_printf(to, "%zu:%s,", strlen(s), s); }

static void add_json(struct buf *to, const json_t *v)
{
	char *dump = v ? json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY) : NULL;
	add_field(to, dump ? dump : "");
	free(dump);
}

/* Everything that the HMAC covers: the request that the state is valid for, and the state itself. */
static void bind_state(const struct mcp_request_state *s, uint64_t until, const char *body, struct buf *out)
{
	char time[24];

	snprintf(time, sizeof(time), "%llu", (unsigned long long)until);
	add_field(out, s->method);
	add_field(out, s->principal ? s->principal : "");
	add_json(out, json_object_get(s->params, "name"));
	add_json(out, json_object_get(s->params, "uri"));
	add_json(out, json_object_get(s->params, "arguments"));
	add_field(out, time);
	add_field(out, body);
}

/* "<expiry>.<base64 of the state>.<base64 of the HMAC>" */
char *mcp_request_state_sign(const struct mcp_request_state *s, const json_t *kept)
{
	uint64_t until = s->now_s + MCP_REQUEST_STATE_LIFE_S;
	char *json = json_dumps(kept, JSON_COMPACT | JSON_ENCODE_ANY);
	buf_auto struct buf body = BUF_INIT, bound = BUF_INIT, mac = BUF_INIT;
	uint8_t sum[32];

	text_base64_encode(json, strlen(json), &body);
	free(json);
	bind_state(s, until, buf_cstr(&body), &bound);
	hmac_state(s->key, &bound, sum);
	text_base64_encode(sum, sizeof(sum), &mac);
	return mem_printf("%llu.%s.%s", (unsigned long long)until, buf_cstr(&body), buf_cstr(&mac));
}

/* The same message for every defect: it must not help to forge one. */
static int reject_state(struct err *e)
{
	return err_field(e, "requestState", "was not issued for this request; call again without it");
}

/* Constant-time comparison. */
static bool macs_equal(const uint8_t *a, const uint8_t *b, size_t n)
{
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= a[i] ^ b[i];
	return differ == 0;
}

json_t *mcp_request_state_verify(const struct mcp_request_state *s, const char *text, struct err *e)
{
	const char *dot = strchr(text, '.'), *last = strrchr(text, '.');
	buf_auto struct buf body = BUF_INIT, bound = BUF_INIT, mac = BUF_INIT, json = BUF_INIT;
	unsigned long long until;
	uint8_t sum[32];
	char end;

	if (!dot || last == dot || strlen(text) > MCP_REQUEST_STATE_MAX ||
	    sscanf(text, "%20llu%c", &until, &end) != 2 || end != '.') {
		reject_state(e);
		return NULL;
	}
	buf_append(&body, dot + 1, (size_t)(last - dot - 1));
	bind_state(s, until, buf_cstr(&body), &bound);
	hmac_state(s->key, &bound, sum);
	if (text_base64_decode(last + 1, strlen(last + 1), &mac) < 0 || mac.len != sizeof(sum) ||
	    !macs_equal((const uint8_t *)mac.data, sum, sizeof(sum))) {
		reject_state(e);
		return NULL;
	}
	/* After the HMAC: before it `until` is only a claim. */
	if (s->now_s > until) {
		err_field(e, "requestState", "has expired; call again without it");
		return NULL;
	}
	json_t *kept = text_base64_decode(buf_cstr(&body), body.len, &json) < 0
			       ? NULL
			       : json_loadb(buf_cstr(&json), json.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (!kept)
		reject_state(e);
	return kept;
}
