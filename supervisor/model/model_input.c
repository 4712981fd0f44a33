#include "supervisor/model/model_input.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS 15000
#define FIRST_BYTE_MS 300000
#define IDLE_MS 300000
#define TOTAL_MS 3600000
#define TIMEOUT_MAX_MS 86400000 /* a day */
#define SILENT_FACTOR 3

/* A line break in a value would start another header. */
static bool is_value(const char *s)
{
	for (; *s; s++)
		if (((unsigned char)*s < 0x20 && *s != '\t') || *s == 0x7f)
			return false;
	return true;
}

/* A string without NUL; absent is NULL. */
static int get_string(struct jval obj, const char *name, char **ret, struct err *e)
{
	struct jval v = jval_get(obj, name);
	mem_auto char *s = jval_strdup(v);

	if (v.type == JT_NONE)
		return 0;
	if (!s || !s[0] || strlen(s) != jval_str(v, (char[1]){ 0 }, 1) || !is_value(s))
		return err_field(e, name, "must be a string of one line");
	*ret = mem_take(&s);
	return 0;
}

static int get_timeout(struct jval timeouts, const char *name, uint64_t otherwise, uint64_t *ret, struct err *e)
{
	struct jval v = jval_get(timeouts, name);

	*ret = v.type == JT_NONE ? otherwise : jval_uint(v, 0);
	if (*ret < 1 || *ret > TIMEOUT_MAX_MS)
		return err_field(e, name, "must be 1 to %d milliseconds", TIMEOUT_MAX_MS);
	return 0;
}

static int get_timeouts(struct jval v, struct model_input *ret, struct err *e)
{
	if (v.type != JT_NONE && v.type != JT_OBJECT)
		return err_field(e, "timeouts", "must be an object");
	if (get_timeout(v, "connectMs", CONNECT_MS, &ret->timeouts.connect_ms, e) < 0 ||
	    get_timeout(v, "firstByteMs", FIRST_BYTE_MS, &ret->timeouts.first_byte_ms, e) < 0 ||
	    get_timeout(v, "idleMs", IDLE_MS, &ret->timeouts.idle_ms, e) < 0 ||
	    get_timeout(v, "totalMs", TOTAL_MS, &ret->timeouts.total_ms, e) < 0)
		return -1;
	uint64_t silent_ms = SILENT_FACTOR * ret->timeouts.idle_ms;
	return get_timeout(v, "silentMs", silent_ms < TIMEOUT_MAX_MS ? silent_ms : TIMEOUT_MAX_MS,
			   &ret->timeouts.silent_ms, e);
}

static int get_headers(struct jval v, struct model_input *ret, struct err *e)
{
	struct jiter it = jiter_on(v);

	if (v.type == JT_NONE)
		return 0;
	if (v.type != JT_OBJECT)
		return err_field(e, "headers", "must be an object");
	while (jiter_next(&it)) {
		mem_auto char *name = jval_strdup(it.key), *value = jval_strdup(it.value);

		if (!name || !value || !text_http_token(name) || !is_value(value))
			return err_field(e, "headers", "'%.60s' is not a header with a value of one line",
					 name ? name : "");
		if (ret->key_header && strcasecmp(name, ret->key_header) == 0)
			return err_field(e, "headers", "'%.60s' is the header of the key", name);
		if (ret->nheaders == MODEL_INPUT_HEADERS_MAX)
			return err_field(e, "headers", "more than %d", MODEL_INPUT_HEADERS_MAX);
		/* libcurl's syntax for a header without a value is "Name;". "Name:" would remove the header. */
		ret->header[ret->nheaders++] = mem_printf("%s%s%s", name, value[0] ? ": " : ";", value);
	}
	return it.p ? 0 : err_field(e, "headers", "is not valid JSON");
}

static int check(const struct model_input *in, struct err *e)
{
	if (!in->url || (strncmp(in->url, "https://", 8) != 0 && strncmp(in->url, "http://", 7) != 0))
		return err_field(e, "url", "must begin with https:// or http://");
	if (in->method && strcmp(in->method, "POST") != 0 && strcmp(in->method, "GET") != 0 &&
	    strcmp(in->method, "DELETE") != 0)
		return err_field(e, "method", "must be POST, GET or DELETE");
	const char *host = strchr(in->url, ':') + 3, *at = strchr(host, '@');
	if (at && at < host + strcspn(host, "/?#"))
		return err_field(e, "url", "must contain no user or password: use keyFile");
	if (in->key_file && in->key_command)
		return err_field(e, "keyCommand", "cannot be combined with keyFile");
	if ((in->key_file || in->key_command) && !in->key_header)
		return err_field(e, "keyHeader", "is required with a key");
	if (in->key_header && !text_http_token(in->key_header))
		return err_field(e, "keyHeader", "is not a valid header name");
	return 0;
}

int model_input_parse(const char *line, size_t len, struct model_input *ret, struct err *e)
{
	struct jval v = jval_of(line, len);

	*ret = (struct model_input){ 0 };
	if (v.type != JT_OBJECT || (size_t)(v.text - line) + v.len != len)
		return err_set(e, ERR_INVALID, "the first line must be a JSON object");
	if (get_string(v, "url", &ret->url, e) < 0 || get_string(v, "method", &ret->method, e) < 0 ||
	    get_string(v, "keyHeader", &ret->key_header, e) < 0 || get_string(v, "keyFile", &ret->key_file, e) < 0 ||
	    get_string(v, "keyCommand", &ret->key_command, e) < 0 || get_string(v, "caFile", &ret->ca_file, e) < 0)
		return -1;
	if (!jval_is_str(jval_get(v, "keyPrefix"), "") && get_string(v, "keyPrefix", &ret->key_prefix, e) < 0)
		return -1;
	ret->direct = jval_bool(jval_get(v, "direct"), false);
	if (check(ret, e) < 0 || get_headers(jval_get(v, "headers"), ret, e) < 0)
		return -1;
	return get_timeouts(jval_get(v, "timeouts"), ret, e);
}

void model_input_done(struct model_input *in)
{
	free(in->url);
	free(in->method);
	for (size_t i = 0; i < in->nheaders; i++)
		free(in->header[i]);
	free(in->key_header);
	free(in->key_prefix);
	free(in->key_file);
	free(in->key_command);
	free(in->ca_file);
	*in = (struct model_input){ 0 };
}
