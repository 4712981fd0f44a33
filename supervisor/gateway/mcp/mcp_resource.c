#include "supervisor/gateway/mcp/mcp_resource.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_page.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <string.h>

#define SUBSCRIPTIONS_MAX 1000u
#define COMPLETIONS_MAX 100u

const struct mcp_resource *mcp_resource_at(const struct mcp_config *config, size_t i)
{
	for (size_t k = 0; k < countof(config->tables) && config->tables[k]; k++) {
		if (i < config->tables[k]->nresources)
			return &config->tables[k]->resources[i];
		i -= config->tables[k]->nresources;
	}
	return NULL;
}

/* ---- templates ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static json_t *unescape_text(const char *s, size_t n)
{
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '%' && i + 2 < n && hex_digit(s[i + 1]) >= 0 && hex_digit(s[i + 2]) >= 0) {
			buf_byte(&out, (char)(hex_digit(s[i + 1]) * 16 + hex_digit(s[i + 2])));
			i += 2;
		} else {
			buf_byte(&out, s[i]);
		}
	}
	return rpc_message_text(buf_cstr(&out), out.len);
}

bool mcp_resource_match(const char *t, const char *uri, json_t **ret_vars)
{
	json_auto_t *vars = json_object();

	while (*t) {
		if (*t != '{') {
			if (*t++ != *uri++)
				return false;
			continue;
		}
		bool rest = t[1] == '+';
		const char *name = t + 1 + rest, *close = strchr(name, '}');
		if (!close)
			return false;
		size_t n = rest ? strlen(uri) : strcspn(uri, "/?#");
		/* Text after the variable in the same segment is not part of it. */
		const char *stop = !rest && close[1] && close[1] != '{' ? memchr(uri, close[1], n) : NULL;
		if (stop)
			n = (size_t)(stop - uri);
		if (!n)
			return false;
		mem_auto char *key = mem_strndup(name, (size_t)(close - name));
		json_object_set_new(vars, key, unescape_text(uri, n));
		uri += n;
		t = close + 1;
	}
	if (*uri)
		return false;
	*ret_vars = json_incref(vars);
	return true;
}

const struct mcp_resource *mcp_resource_find(const struct mcp_config *config, const char *uri, json_t **ret_vars)
{
	const struct mcp_resource *r;

	*ret_vars = NULL;
	for (size_t i = 0; (r = mcp_resource_at(config, i)); i++)
		if (r->is_template ? mcp_resource_match(r->uri, uri, ret_vars) : strcmp(r->uri, uri) == 0)
			return r;
	return NULL;
}

/* ---- lists ---- */

json_t *mcp_resource_describe(const struct mcp_resource *r)
{
	json_t *d = json_pack("{ss ss ss ss}", r->is_template ? "uriTemplate" : "uri", r->uri, "name", r->name, "title",
			      r->title, "description", r->description);

	if (r->mime)
		json_object_set_new(d, "mimeType", json_string(r->mime));
	return d;
}

static json_t *template_row(struct mcp_call *c, size_t i)
{
	const struct mcp_resource *r;

	for (size_t k = 0; (r = mcp_resource_at(c->mcp->o.config, k)); k++)
		if (r->is_template && i-- == 0)
			return mcp_resource_describe(r);
	return NULL;
}

void mcp_method_templates_list(struct mcp_call *c) { mcp_page_finish(c, "resourceTemplates", template_row); }

void mcp_resource_listed(struct mcp_call *c, json_t *page, const char *next_cursor)
{
	json_t *result = json_pack("{so}", "resources", page);

	if (next_cursor)
		json_object_set_new(result, "nextCursor", json_string(next_cursor));
	mcp_call_finish(c, result);
}

/* ---- reading ---- */

/* NULL: the call has failed. */
static const char *uri_of(struct mcp_call *c)
{
	const json_t *uri = json_object_get(c->params, "uri");

	if (json_is_string(uri) && strlen(json_string_value(uri)) == json_string_length(uri))
		return json_string_value(uri);
	mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "uri: expected a string");
	return NULL;
}

void mcp_resource_missing(struct mcp_call *c)
{
	const char *uri = json_get_string(c->params, "uri");

	mcp_call_fail(c, c->priv->era == MCP_MODERN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
		      json_pack("{ss}", "uri", uri), "there is no resource %.200s", uri);
}

void mcp_method_resources_read(struct mcp_call *c)
{
	const char *uri = uri_of(c);
	const struct mcp_resource *r;

	if (!uri)
		return;
	c->uri = uri;
	r = mcp_resource_find(c->mcp->o.config, c->uri, &c->vars);
	if (r)
		r->read(c);
	else
		mcp_resource_missing(c);
}

/* ---- subscriptions of legacy clients ---- */

void mcp_method_subscribe(struct mcp_call *c)
{
	const char *uri = uri_of(c);
	json_auto_t *vars = NULL;

	if (!uri)
		return;
	if (!mcp_resource_find(c->mcp->o.config, uri, &vars)) {
		mcp_resource_missing(c);
		return;
	}
	if (json_object_size(c->mcp->subscribed) >= SUBSCRIPTIONS_MAX) {
		mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "more than %u subscriptions", SUBSCRIPTIONS_MAX);
		return;
	}
	json_object_set_new(c->mcp->subscribed, uri, json_true());
	mcp_call_finish(c, json_object());
}

void mcp_method_unsubscribe(struct mcp_call *c)
{
	const char *uri = uri_of(c);

	if (!uri)
		return;
	json_object_del(c->mcp->subscribed, uri);
	mcp_call_finish(c, json_object());
}

void mcp_resource_completion(struct mcp_call *c, json_t *values)
{
	size_t total = json_array_size(values);

	while (json_array_size(values) > COMPLETIONS_MAX)
		json_array_remove(values, json_array_size(values) - 1);
	mcp_call_finish(c, json_pack("{s{so sI sb}}", "completion", "values", values, "total", (json_int_t)total,
				     "hasMore", total > COMPLETIONS_MAX));
}
