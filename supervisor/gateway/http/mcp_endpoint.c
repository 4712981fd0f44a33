#include "supervisor/gateway/http/mcp_endpoint.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/mcp_headers.h"
#include "supervisor/gateway/http/mcp_stream.h"
#include "supervisor/gateway/mcp/mcp_call.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tool.h"

#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>

#define ID_BYTES 16
#define SWEEP_S 5

/* A client: one legacy session, or all modern requests that carry the same token. */
struct peer {
	TAILQ_ENTRY(peer) entry;
	struct mcp_endpoint *of;
	char id[2 * ID_BYTES + 1]; /* "" for a modern one */
	char *principal;
	struct mcp_session *mcp;
	struct mcp_streams *streams;
	uint64_t used_ns; /* when a connection was last open */
};

struct mcp_endpoint {
	struct mcp_endpoint_options o;
	struct strmap by_id;
	TAILQ_HEAD(peers, peer) peers; /* legacy sessions */
	struct peers modern;           /* created on demand; at most one per token */
	struct event *sweep;
	struct mcp_endpoint_counts counts;
};

/* ---- peers ---- */

static void on_send(void *ctx, void *stream, json_t *message, bool last)
{
	struct peer *p = ctx;

	mcp_streams_send(p->streams, stream, message, last);
}

static void on_wake(void *ctx) {}

static void on_abandoned(void *ctx, struct mcp_stream *s)
{
	struct peer *p = ctx;

	mcp_session_stream_closed(p->mcp, s, true);
}

static struct peer *peer_new(struct mcp_endpoint *of, bool resumable, const struct http_exchange *x)
{
	struct peer *p = mem_zalloc(1, sizeof(*p));
	struct mcp_streams_options so = {
		.base = of->o.base, .resumable = resumable, .abandoned = on_abandoned, .ctx = p
	};
	struct mcp_session_options mo = {
		.base = of->o.base,
		.config = of->o.config,
		.transport = resumable ? "sse" : "http_json",
		.principal = http_exchange_principal(x),
		.shared = !resumable && !http_exchange_named(x),
		.out = { .send = on_send, .wake = on_wake },
		.ctx = p,
	};

	p->of = of;
	p->principal = mem_strdup(http_exchange_principal(x));
	p->used_ns = clock_boot_ns();
	p->streams = mcp_streams_new(&so);
	p->mcp = mcp_session_new(&mo);
	return p;
}

static void peer_free(struct peer *p)
{
	mcp_session_free(p->mcp);
	mcp_streams_free(p->streams);
	free(p->principal);
	free(p);
}

static void session_free_of(struct peer *p)
{
	TAILQ_REMOVE(&p->of->peers, p, entry);
	strmap_del(&p->of->by_id, p->id);
	p->of->counts.sessions--;
	peer_free(p);
}

static struct peer *session_new(struct mcp_endpoint *of, const struct http_exchange *x)
{
	struct peer *p = peer_new(of, true, x);
	unsigned char bytes[ID_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		abort();
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(p->id + 2 * i, 3, "%02x", bytes[i]);
	strmap_put(&of->by_id, p->id, p);
	TAILQ_INSERT_TAIL(&of->peers, p, entry);
	of->counts.sessions++;
	of->counts.sessions_started++;
	return p;
}

static struct peer *modern_of(struct mcp_endpoint *of, const struct http_exchange *x)
{
	struct peer *p;

	TAILQ_FOREACH (p, &of->modern, entry)
		if (strcmp(p->principal, http_exchange_principal(x)) == 0)
			return p;
	p = peer_new(of, false, x);
	TAILQ_INSERT_TAIL(&of->modern, p, entry);
	return p;
}

static void modern_free(struct peer *p)
{
	TAILQ_REMOVE(&p->of->modern, p, entry);
	peer_free(p);
}

/* The session that has been without a connection for longest; NULL if all have one. */
static struct peer *find_idlest(struct mcp_endpoint *of)
{
	struct peer *best = NULL, *p;

	TAILQ_FOREACH (p, &of->peers, entry)
		if (mcp_streams_open(p->streams) == 0 && (!best || p->used_ns < best->used_ns))
			best = p;
	return best;
}

/* Ends sessions without a connection for idle_ms. An open stream counts as use. */
static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_endpoint *of = arg;
	uint64_t now = clock_boot_ns();
	struct peer *p, *next;

	for (p = TAILQ_FIRST(&of->peers); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if (mcp_streams_open(p->streams)) {
			p->used_ns = now;
		} else if (now - p->used_ns > (uint64_t)of->o.idle_ms * 1000000) {
			of->counts.sessions_expired++;
			session_free_of(p);
		}
	}
}

/* ---- requests ---- */

/* Replies with a JSON-RPC error to a message that is not passed to a session. */
static void fail_exchange(struct http_exchange *x, unsigned status, const json_t *message, int code, const char *why)
{
	const json_t *id = json_object_get(message, "id");
	json_t *error = rpc_message_error(RPC_VERSIONED, json_is_string(id) || json_is_integer(id) ? id : NULL, code,
					  why, NULL);
	mem_auto char *text = json_dumps(error, JSON_COMPACT);

	json_decref(error);
	http_exchange_reply(x, status, "application/json", text, strlen(text));
}

static bool accepts_type(const struct http_request *r, const char *kind, const char *any)
{
	return http_request_lists(r, "Accept", kind) || http_request_lists(r, "Accept", any) ||
	       http_request_lists(r, "Accept", "*/*");
}

/* A session is visible only to the principal that created it; to others it does not exist (404). */
static struct peer *session_named(struct mcp_endpoint *of, const char *id, const char *principal)
{
	struct peer *p = strmap_get(&of->by_id, id);

	return p && strcmp(p->principal, principal) == 0 ? p : NULL;
}

/* The session named by the header. NULL: an error was sent. */
static struct peer *session_of(struct mcp_endpoint *of, struct http_exchange *x, const json_t *message)
{
	buf_auto struct buf id = BUF_INIT;
	struct peer *p = NULL;
	const struct http_request *r = http_exchange_request(x);

	if (!mcp_headers_legacy_version(r)) {
		fail_exchange(x, 400, message, RPC_INVALID_REQUEST,
			      "MCP-Protocol-Version names an unsupported version");
		return NULL;
	}
	if (!http_request_header(r, "Mcp-Session-Id", &id))
		fail_exchange(x, 400, message, RPC_INVALID_REQUEST,
			      "the header Mcp-Session-Id is missing: a session starts with initialize");
	else if (!(p = session_named(of, buf_cstr(&id), http_exchange_principal(x))))
		fail_exchange(x, 404, message, RPC_INVALID_REQUEST,
			      "unknown or expired session: start a new one with initialize");
	if (p)
		p->used_ns = clock_boot_ns();
	return p;
}

static bool is_request(const json_t *message)
{
	return json_object_get(message, "method") && json_object_get(message, "id");
}

/* The tool that a message calls, or NULL. */
static const struct mcp_tool *called_tool(const struct mcp_endpoint *of, const json_t *message)
{
	const char *method = json_get_string(message, "method"),
		   *name = json_get_string(json_object_get(message, "params"), "name");

	return method && name && strcmp(method, "tools/call") == 0 ? mcp_tool_find(of->o.config, name) : NULL;
}

/*
 * Takes ownership of the message. Every message gets a stream, also notifications and responses (202): a stream tells
 * the session that no other message shares this connection.
 */
static void feed_message(struct peer *p, struct http_exchange *x, json_t *message, const struct mcp_post *post)
{
	if (is_request(message) && mcp_session_busy(p->mcp)) {
		http_exchange_header(x, "Retry-After", "1");
		fail_exchange(x, 429, message, RPC_INTERNAL_ERROR,
			      "too many calls are in progress for this client: wait for some of them to end");
		json_decref(message);
		return;
	}
	mcp_session_note_size(p->mcp, http_exchange_request(x)->body.len);
	struct mcp_stream *place = mcp_streams_post(p->streams, x, post);
	mcp_session_feed(p->mcp, message, place, post->modern ? MCP_HINT_MODERN : MCP_HINT_LEGACY);
}

/* At the limit, the session that has been idle for longest is ended; if all have connections, the request fails. */
static void post_initialize(struct mcp_endpoint *of, struct http_exchange *x, json_t *message)
{
	struct peer *p = of->counts.sessions >= of->o.sessions ? find_idlest(of) : NULL;

	if (of->counts.sessions >= of->o.sessions && !p) {
		fail_exchange(x, 503, message, RPC_INTERNAL_ERROR, "too many sessions are open");
		json_decref(message);
		return;
	}
	if (p)
		session_free_of(p);
	p = session_new(of, x);
	feed_message(p, x, message, &(struct mcp_post){ .session_id = p->id });
	/* The request was rejected immediately, so no session was established. */
	if (!mcp_session_is_legacy(p->mcp) && mcp_streams_open(p->streams) == 0)
		session_free_of(p);
	else
		mcp_streams_prime(p->streams, strcmp(mcp_session_version(p->mcp) ?: "", "2025-11-25") >= 0);
}

static void post_legacy(struct mcp_endpoint *of, struct http_exchange *x, json_t *message)
{
	const char *method = json_get_string(message, "method");

	if (method && is_request(message) && strcmp(method, "initialize") == 0)
		return post_initialize(of, x, message);
	struct peer *p = session_of(of, x, message);
	if (!p) {
		json_decref(message);
		return;
	}
	const struct mcp_tool *tool = is_request(message) ? called_tool(of, message) : NULL;
	bool hang_up = tool && (tool->hints & MCP_HANG_UP);
	feed_message(p, x, message, &(struct mcp_post){ .hang_up = hang_up });
}

static void post_modern(struct mcp_endpoint *of, struct http_exchange *x, json_t *message, const struct mcp_envelope *e)
{
	const struct mcp_tool *tool = called_tool(of, message);
	json_auto_t *schema = tool ? json_loads(tool->input, 0, NULL) : NULL;
	char why[MCP_WHY_MAX];

	if (is_request(message) && !mcp_headers_agree(http_exchange_request(x), message, schema, why)) {
		fail_exchange(x, 400, message, MCP_HEADER_MISMATCH, why);
		json_decref(message);
		return;
	}
	feed_message(modern_of(of, x), x, message, &(struct mcp_post){ .modern = true, .complete = e->complete });
}

/* The body is not an object. The id of text that is not JSON can often be found (rpc_message.h). */
static void reject_body(struct http_exchange *x, const json_t *message, const json_error_t *bad)
{
	const struct buf *body = &http_exchange_request(x)->body;

	if (message)
		return fail_exchange(x, 400, NULL, RPC_INVALID_REQUEST,
				     json_is_array(message) ? "batches are not supported: send one message per POST"
							    : "the body is not a JSON object");
	json_auto_t *found = json_pack("{so*}", "id", body->len ? rpc_message_find_id(body->data, body->len) : NULL);
	mem_auto char *why = mem_printf("bad JSON at byte %d: %s", bad->position, bad->text);
	fail_exchange(x, 400, found, RPC_PARSE_ERROR, why);
}

static void handle_post(struct mcp_endpoint *of, struct http_exchange *x)
{
	const struct http_request *r = http_exchange_request(x);
	json_error_t je;

	if (!http_request_has_type(r, "application/json"))
		return fail_exchange(x, 415, NULL, RPC_INVALID_REQUEST, "Content-Type must be application/json");
	if (!accepts_type(r, "application/json", "application/*") || !accepts_type(r, "text/event-stream", "text/*"))
		return fail_exchange(x, 406, NULL, RPC_INVALID_REQUEST,
				     "Accept must list application/json and text/event-stream");
	json_t *message = json_loadb(r->body.data ? r->body.data : "", r->body.len,
				     JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &je);
	if (!json_is_object(message)) {
		reject_body(x, message, &je);
		json_decref(message);
		return;
	}
	struct mcp_envelope e = mcp_headers_envelope(r, message);
	if (e.modern)
		post_modern(of, x, message, &e);
	else
		post_legacy(of, x, message);
}

static void handle_get(struct mcp_endpoint *of, struct http_exchange *x)
{
	const struct http_request *r = http_exchange_request(x);
	buf_auto struct buf last = BUF_INIT;

	if (!accepts_type(r, "text/event-stream", "text/*"))
		return fail_exchange(x, 406, NULL, RPC_INVALID_REQUEST, "Accept must list text/event-stream");
	struct peer *p = session_of(of, x, NULL);
	if (p)
		mcp_streams_get(p->streams, x, http_request_header(r, "Last-Event-ID", &last) ? buf_cstr(&last) : NULL);
}

static void handle_delete(struct mcp_endpoint *of, struct http_exchange *x)
{
	struct peer *p = session_of(of, x, NULL);

	if (!p)
		return;
	http_exchange_reply(x, 204, NULL, "", 0);
	session_free_of(p);
}

static void handle_exchange(void *ctx, struct http_exchange *x)
{
	static const struct {
		const char *method;
		void (*handle)(struct mcp_endpoint *of, struct http_exchange *x);
	} rows[] = { { "POST", handle_post }, { "GET", handle_get }, { "DELETE", handle_delete } };
	const struct http_request *r = http_exchange_request(x);

	/* The modern era has no streams to read and no sessions to end. */
	if (strcmp(r->method, "POST") != 0 && mcp_headers_envelope(r, NULL).modern) {
		http_exchange_header(x, "Allow", "POST");
		http_exchange_refuse(x, 405, "MCP 2026-07-28 and later supports only POST");
		return;
	}
	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].method, r->method) == 0) {
			rows[i].handle(ctx, x);
			return;
		}
}

/* ---- the endpoint ---- */

struct mcp_endpoint *mcp_endpoint_new(const struct mcp_endpoint_options *o)
{
	struct mcp_endpoint *of = mem_zalloc(1, sizeof(*of));
	struct timeval tv = { SWEEP_S, 0 };

	if (o->idle_ms < SWEEP_S * 1000)
		tv = (struct timeval){ o->idle_ms / 1000, (suseconds_t)(o->idle_ms % 1000) * 1000 };
	of->o = *o;
	TAILQ_INIT(&of->peers);
	TAILQ_INIT(&of->modern);
	of->sweep = event_new(o->base, -1, EV_PERSIST, on_sweep, of);
	if (!of->sweep)
		abort();
	loop_add(of->sweep, &tv);
	return of;
}

void mcp_endpoint_serve(struct mcp_endpoint *of, struct http_server *s, const char *path)
{
	http_server_route(
		s, &(struct http_route){ .path = path, .methods = "GET, POST, DELETE", .handle = handle_exchange }, of);
}

/* Modern listening calls get a final result first, as the protocol requires (mcp_session_shutdown). */
void mcp_endpoint_stop(struct mcp_endpoint *of)
{
	while (!TAILQ_EMPTY(&of->peers)) {
		mcp_session_shutdown(TAILQ_FIRST(&of->peers)->mcp);
		session_free_of(TAILQ_FIRST(&of->peers));
	}
	while (!TAILQ_EMPTY(&of->modern)) {
		mcp_session_shutdown(TAILQ_FIRST(&of->modern)->mcp);
		modern_free(TAILQ_FIRST(&of->modern));
	}
}

void mcp_endpoint_forget(struct mcp_endpoint *of, const char *principal)
{
	struct peer *p, *next;

	for (p = TAILQ_FIRST(&of->peers); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if (strcmp(p->principal, principal) == 0)
			session_free_of(p);
	}
	for (p = TAILQ_FIRST(&of->modern); p; p = next) {
		next = TAILQ_NEXT(p, entry);
		if (strcmp(p->principal, principal) == 0)
			modern_free(p);
	}
}

void mcp_endpoint_free(struct mcp_endpoint *of)
{
	if (!of)
		return;
	mcp_endpoint_stop(of);
	event_free(of->sweep);
	strmap_done(&of->by_id);
	free(of);
}

struct mcp_endpoint_counts mcp_endpoint_counts(const struct mcp_endpoint *of) { return of->counts; }
