/*
 * Files that the client reads in blocks. A handle is a path and the sandbox in which it may be read. Each block is read
 * by a new process, so a handle keeps nothing open and need not be closed; if the file is replaced in between, later
 * blocks come from the new file.
 */

#include "supervisor/gateway/codex/codex_private.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/codex/codex_fs.h"

#include <limits.h>
#include <string.h>

#define HANDLES_MAX 1024u
#define ID_BYTES_MAX 32u
#define BLOCK_MAX (1u << 20)

struct codex_handle {
	char *path;
	json_t *sandbox;
};

static void handle_free(struct codex_handle *h)
{
	if (!h)
		return;
	json_decref(h->sandbox);
	free(h->path);
	free(h);
}

static void free_handle(void *ctx, const char *key, void *value) { handle_free(value); }

void codex_handle_free_all(struct codex_server *s)
{
	strmap_each(&s->handles, free_handle, NULL);
	strmap_done(&s->handles);
}

/* NULL: the call has failed. */
static const char *read_handle_id(struct codex_call *c)
{
	const char *id = codex_call_str(c, "handleId");

	if (id && strlen(id) > ID_BYTES_MAX) {
		codex_call_fail(c, RPC_INVALID_REQUEST, "file handle ID must not exceed %u bytes", ID_BYTES_MAX);
		return NULL;
	}
	return id;
}

/* The block was read; or, with length 0, fs/open has verified that the file can be read. */
static void reply_read(struct codex_call *c)
{
	struct codex_server *s = c->server;
	const char *id = json_get_string(c->params, "handleId");
	buf_auto struct buf text = BUF_INIT;
	char path[PATH_MAX];

	if (c->length) {
		text_base64_encode(buf_cstr(&c->file), c->file.len, &text);
		codex_call_reply(c, json_pack("{ss sb}", "chunk", buf_cstr(&text), "eof", c->file.len < c->length));
		return;
	}
	if (strmap_get(&s->handles, id)) {
		codex_call_fail(c, RPC_INVALID_REQUEST, "file handle `%s` already exists", id);
		return;
	}
	if (!codex_call_path(c, "path", path))
		return;
	struct codex_handle *h = mem_zalloc(1, sizeof(*h));
	h->path = mem_strdup(path);
	h->sandbox = json_incref(json_object_get(c->params, "sandbox"));
	strmap_put(&s->handles, id, h);
	codex_call_reply(c, json_pack("{ss}", "handleId", id));
}

void codex_fs_open(struct codex_call *c)
{
	const char *id = read_handle_id(c);
	char path[PATH_MAX];

	if (!id || !codex_call_path(c, "path", path))
		return;
	if (strmap_get(&c->server->handles, id) || c->server->handles.count >= HANDLES_MAX) {
		codex_call_fail(c, RPC_INVALID_REQUEST,
				strmap_get(&c->server->handles, id) ? "file handle `%s` already exists"
								    : "file handle `%s`: there are too many",
				id);
		return;
	}
	c->read_done = reply_read;
	codex_fs_read(c, path, json_object_get(c->params, "sandbox"), 0, 0);
}

void codex_fs_read_block(struct codex_call *c)
{
	const char *id = read_handle_id(c);
	const json_t *offset = id ? json_object_get(c->params, "offset") : NULL,
		     *length = id ? json_object_get(c->params, "len") : NULL;

	if (!id)
		return;
	if (!json_is_integer(offset) || json_integer_value(offset) < 0 || !json_is_integer(length)) {
		codex_call_fail(c, RPC_INVALID_PARAMS, "offset and len must be numbers, not below 0");
		return;
	}
	if (json_integer_value(length) < 1 || json_integer_value(length) > (json_int_t)BLOCK_MAX) {
		codex_call_fail(c, RPC_INVALID_REQUEST, "file read block length must be between 1 and %u", BLOCK_MAX);
		return;
	}
	const struct codex_handle *h = strmap_get(&c->server->handles, id);
	if (!h) {
		codex_call_fail(c, CODEX_NOT_FOUND, "unknown file handle `%s`", id);
		return;
	}
	c->read_done = reply_read;
	codex_fs_read(c, h->path, h->sandbox, (uint64_t)json_integer_value(offset),
		      (uint64_t)json_integer_value(length));
}

void codex_fs_close(struct codex_call *c)
{
	const char *id = read_handle_id(c);

	if (!id)
		return;
	handle_free(strmap_del(&c->server->handles, id));
	codex_call_reply(c, json_object());
}
