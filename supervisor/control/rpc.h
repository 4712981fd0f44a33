#ifndef BAILIFF_CONTROL_RPC_H
#define BAILIFF_CONTROL_RPC_H

/*
 * Writes JSON-RPC replies. `id` is the request's id as JSON text; NULL writes null, as JSON-RPC requires where the id
 * could not be read. Nothing here ends a line: a reply may be an element of a batch.
 */

#include "runtime/base/err.h"

#include <stddef.h>

struct buf;

enum rpc_code {
	RPC_PARSE_ERROR = -32700,
	RPC_INVALID_REQUEST = -32600,
	RPC_METHOD_NOT_FOUND = -32601,
	RPC_INVALID_PARAMS = -32602,
	RPC_INTERNAL_ERROR = -32603,
	RPC_NOT_ALLOWED = -32003,
	RPC_NOT_FOUND = -32004,
	RPC_CONFLICT = -32009,
	RPC_PERMISSION_DENIED = -32010,
	RPC_UNAVAILABLE = -32011,
	RPC_RESOURCE_EXHAUSTED = -32012,
	RPC_SEQUENCE_EXPIRED = -32013,
	RPC_SANDBOX_FAILED = -32014,
	RPC_INVALID_STATE = -32015,
};

void rpc_result(struct buf *out, const char *id, const char *json, size_t len);
/* The code, category, retryable and advice follow from the error's code; `data`: further members of error.data, or
 * NULL. */
void rpc_error(struct buf *out, const char *id, const struct err *e, const char *data, size_t len);
/* Errors of the protocol itself. */
void rpc_protocol_error(struct buf *out, const char *id, enum rpc_code code, const char *message);

/* The category that error.data shows ("not_found"), and back; ERR_INTERNAL for a name that is not known. */
const char *rpc_category(enum err_code code);
enum err_code rpc_category_code(const char *category);

#endif
