#include "supervisor/gateway/http/console_reply.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"

static void reply_json(struct http_exchange *x, unsigned status, const struct buf *out)
{
	http_exchange_reply(x, status, "application/json", out->data, out->len);
}

void console_reply_error(struct http_exchange *x, unsigned status, const char *code, const char *message)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kobj(&w, "error");
	jw_kstr(&w, "code", code);
	jw_kstr(&w, "message", message);
	jw_obj_end(&w);
	jw_obj_end(&w);
	reply_json(x, status, &out);
}

void console_reply_raw(struct http_exchange *x, unsigned status, const char *key, struct jval value)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kraw(&w, key, value.text, value.len);
	jw_obj_end(&w);
	reply_json(x, status, &out);
}

json_t *console_reply_body(struct http_exchange *x)
{
	const struct buf *body = &http_exchange_request(x)->body;
	json_error_t e;
	json_t *v = body->len ? json_loadb(body->data, body->len, JSON_REJECT_DUPLICATES, &e) : json_object();

	if (json_is_object(v))
		return v;
	json_decref(v);
	console_reply_error(x, 400, "invalid", "the body is not a JSON object");
	return NULL;
}
