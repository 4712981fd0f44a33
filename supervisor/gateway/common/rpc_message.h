#ifndef BAILIFF_GATEWAY_RPC_MESSAGE_H
#define BAILIFF_GATEWAY_RPC_MESSAGE_H

/*
 * One JSON-RPC message in either dialect: MCP and ACP have the member "jsonrpc", Codex does not. Ids are strings,
 * integers or null and are preserved as received. Unknown members are kept.
 */

#include "runtime/base/buf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum rpc_kind { RPC_REQUEST, RPC_NOTIFICATION, RPC_RESPONSE };

enum {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
};

enum rpc_dialect { RPC_VERSIONED, RPC_BARE }; /* with "jsonrpc":"2.0", or without it */

struct rpc_message {
	enum rpc_kind kind;
	json_t *root;           /* owns all other members */
	json_t *id;             /* NULL for a notification */
	const char *method;     /* NULL for a response */
	json_t *params;         /* an object or array, or NULL */
	json_t *result, *error; /* of a response: exactly one of them */
};

/* Why a message is invalid, and the id to reply with (null if it could not be read). */
struct rpc_problem {
	int code;
	char message[200];
	json_t *id; /* owned: release with rpc_problem_done */
};

/* Parses one JSON object. 0, or −1 with *ret_problem filled. */
int rpc_message_parse(const char *text, size_t len, enum rpc_dialect d, struct rpc_message *ret,
		      struct rpc_problem *ret_problem);
/* Like rpc_message_parse, for a value that is already parsed. Takes ownership of root, also on failure. */
int rpc_message_of(json_t *root, enum rpc_dialect d, struct rpc_message *ret, struct rpc_problem *ret_problem);
/*
 * The id of a request that jansson rejects (a number out of range, half a surrogate pair in an argument), so that the
 * client still gets an error reply. NULL if there is no usable id.
 */
json_t *rpc_message_find_id(const char *text, size_t len);
void rpc_message_done(struct rpc_message *m);
void rpc_problem_done(struct rpc_problem *p);
#define rpc_message_auto __attribute__((cleanup(rpc_message_done)))

/* Take ownership of `result`, `params` and `data`; params and data may be NULL. `id` is copied; NULL means null. */
json_t *rpc_message_result(enum rpc_dialect d, const json_t *id, json_t *result);
json_t *rpc_message_error(enum rpc_dialect d, const json_t *id, int code, const char *message, json_t *data);
json_t *rpc_message_request(enum rpc_dialect d, const json_t *id, const char *method, json_t *params);
json_t *rpc_message_notification(enum rpc_dialect d, const char *method, json_t *params);

/* Compact; ends with a newline if `line`. */
void rpc_message_write(const json_t *message, bool line, struct buf *out);

/* A JSON string from bytes that may not be UTF-8: invalid bytes are replaced by U+FFFD. Never NULL. */
json_t *rpc_message_text(const char *s, size_t n);

/*
 * "00-<32 hex>-<16 hex>-<2 hex>", neither id all zero. An invalid trace context is ignored, not rejected, as the trace
 * specification requires.
 */
bool rpc_message_is_traceparent(const char *s);

#endif
