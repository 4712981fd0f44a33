/*
 * Codex's file methods. Each runs a separate process, `bailiff-tool fs`, in the requested sandbox, so that the kernel
 * enforces which files it may access. The gateway itself has all rights of its user and never touches the files.
 */

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/codex/codex_private.h"
#include "supervisor/gateway/common/file_uri.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_MAX (45u << 20)   /* so that its base64 fits into one message */
#define PIECE_BYTES (4u << 20) /* a multiple of 3, so that the base64 of the pieces concatenates */
#define YIELD_MS 60000
#define OUTPUT_BYTES (1u << 20)

/* ---- failures ---- */

static void fail_number(struct codex_call *c, int number, const char *message)
{
	int code = number == ENOENT                                                         ? CODEX_NOT_FOUND
		   : number == 0 || number == EACCES || number == EPERM || number == EINVAL ? RPC_INVALID_REQUEST
											    : RPC_INTERNAL_ERROR;

	if (number)
		codex_call_fail(c, code, "%s (os error %d)", strerror(number), number);
	else
		codex_call_fail(c, code, "%s", message);
}

/* Reports the error that bailiff-tool wrote to stderr as JSON. */
static void fail_tool(struct codex_call *c, const json_t *result)
{
	const json_t *text = json_object_get(json_object_get(json_object_get(result, "output"), "stderr"), "data");
	json_auto_t *e = json_loadb(json_is_string(text) ? json_string_value(text) : "", json_string_length(text), 0,
				    NULL);

	if (json_is_object(e))
		fail_number(c, (int)json_integer_value(json_object_get(e, "errno")), json_get_text(e, "message"));
	else
		codex_call_fail(c, RPC_INTERNAL_ERROR, "the file operation ended without an answer (status %s)",
				json_get_text(result, "status"));
}

/* ---- results ---- */

static void reply_empty(struct codex_call *c, json_t *result) { codex_call_reply(c, json_object()); }

static void reply_result(struct codex_call *c, json_t *result) { codex_call_reply(c, json_incref(result)); }

static void path_to_uri(json_t *o)
{
	buf_auto struct buf uri = BUF_INIT;

	file_uri_write(json_get_text(o, "path"), &uri);
	json_object_set_new(o, "path", json_string(buf_cstr(&uri)));
}

static void reply_path(struct codex_call *c, json_t *result)
{
	path_to_uri(result);
	codex_call_reply(c, json_incref(result));
}

static void reply_walk(struct codex_call *c, json_t *result)
{
	static const char *const lists[] = { "entries", "errors" };
	size_t i;
	json_t *v;

	for (size_t k = 0; k < countof(lists); k++)
		json_array_foreach (json_object_get(result, lists[k]), i, v)
			path_to_uri(v);
	codex_call_reply(c, json_incref(result));
}

/* ---- the operations ---- */

static bool param_flag(const struct codex_call *c, const char *name, bool otherwise)
{
	const json_t *v = json_object_get(c->params, name);

	return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/*
 * One row per method: its operation in bailiff-tool, the parameters with its paths, its flags, and how to build the
 * result.
 */
struct codex_fs_row {
	const char *method, *operation, *path, *other;
	enum { FLAGS_NONE, FLAGS_RANGE, FLAGS_FOLLOW, FLAGS_MKDIR, FLAGS_REMOVE, FLAGS_COPY, FLAGS_WALK } flags;
	void (*answer)(struct codex_call *c, json_t *result); /* NULL: the result is the contents of a file */
};

static const struct codex_fs_row rows[] = {
	{ "fs/readFile", "read", "path", NULL, FLAGS_RANGE, NULL },
	{ "fs/getMetadata", "stat", "path", NULL, FLAGS_FOLLOW, reply_result },
	{ "fs/canonicalize", "realpath", "path", NULL, FLAGS_NONE, reply_path },
	{ "fs/readDirectory", "list", "path", NULL, FLAGS_NONE, reply_result },
	{ "fs/walk", "walk", "path", NULL, FLAGS_WALK, reply_walk },
	{ "fs/createDirectory", "mkdir", "path", NULL, FLAGS_MKDIR, reply_empty },
	{ "fs/remove", "remove", "path", NULL, FLAGS_REMOVE, reply_empty },
	{ "fs/copy", "copy", "sourcePath", "destinationPath", FLAGS_COPY, reply_empty },
};

/* The flags of an operation, as bailiff-tool reads them. False: the call has failed. */
static bool write_flags(struct codex_call *c, char *ret, size_t cap)
{
	static const char *const limits[] = { "maxDepth", "maxDirectories", "maxEntries" };
	const json_t *o = json_object_get(c->params, "options");
	const char *recursive = param_flag(c, "recursive", c->row->flags != FLAGS_COPY) ? "r" : "";
	unsigned long long v[countof(limits)];

	switch (c->row->flags) {
	case FLAGS_NONE: (void)snprintf(ret, cap, "-"); break;
	case FLAGS_RANGE:
		(void)snprintf(ret, cap, "%llu:%llu", (unsigned long long)c->offset, (unsigned long long)c->length);
		break;
	case FLAGS_FOLLOW: (void)snprintf(ret, cap, "%s", param_flag(c, "followSymlinks", true) ? "f" : "n"); break;
	case FLAGS_COPY:
		if (!json_is_boolean(json_object_get(c->params, "recursive"))) {
			codex_call_fail(c, RPC_INVALID_PARAMS, "missing field `recursive`");
			return false;
		}
		/* fallthrough */
	case FLAGS_MKDIR: (void)snprintf(ret, cap, "%s", *recursive ? recursive : "-"); break;
	case FLAGS_REMOVE: (void)snprintf(ret, cap, "%s%s-", recursive, param_flag(c, "force", true) ? "f" : ""); break;
	case FLAGS_WALK:
		for (size_t i = 0; i < countof(limits); i++) {
			const json_t *n = json_object_get(o, limits[i]);

			if (!json_is_integer(n) || json_integer_value(n) < 0) {
				codex_call_fail(c, RPC_INVALID_PARAMS, "missing field `%s`", limits[i]);
				return false;
			}
			v[i] = (unsigned long long)json_integer_value(n);
		}
		(void)snprintf(ret, cap, "%llu:%llu:%llu:%d", v[0], v[1], v[2],
			       json_get_flag(o, "followDirectorySymlinks"));
		break;
	}
	return true;
}

/* ---- bytes ---- */

static void read_more(struct codex_call *c);

static void append_bytes(struct codex_call *c, const json_t *range)
{
	const json_t *data = json_object_get(range, "data");

	if (json_text_is(range, "encoding", "base64"))
		(void)text_base64_decode(json_string_value(data), json_string_length(data), &c->file);
	else
		buf_append(&c->file, json_string_value(data), json_string_length(data));
}

static void reply_json(struct codex_call *c)
{
	json_auto_t *answer = json_loadb(buf_cstr(&c->file), c->file.len, 0, NULL);

	if (json_is_object(answer))
		c->row->answer(c, answer);
	else
		codex_call_fail(c, RPC_INTERNAL_ERROR, "the file operation ended without an answer");
}

static void reply_output(struct codex_call *c)
{
	buf_auto struct buf text = BUF_INIT;

	if (c->row->answer)
		return reply_json(c);
	if (c->read_done)
		return c->read_done(c);
	text_base64_encode(buf_cstr(&c->file), c->file.len, &text);
	codex_call_reply(c, json_pack("{ss}", "dataBase64", buf_cstr(&text)));
}

static void on_more(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;
	size_t before = c->file.len;

	if (error)
		return codex_call_fail_daemon(c, error);
	append_bytes(c, result);
	if (c->file.len == before)
		return codex_call_fail(c, RPC_INTERNAL_ERROR, "only %zu of %llu bytes could be read back", before,
				       (unsigned long long)c->total);
	read_more(c);
}

static void read_more(struct codex_call *c)
{
	if (c->file.len >= c->total)
		return reply_output(c);
	gateway_session_query(c->server->session, "read_output",
			      json_pack("{ss sI sI ss}", "outputRef", c->file_output, "offset", (json_int_t)c->file.len,
					"length", (json_int_t)OUTPUT_BYTES, "encoding", "base64"),
			      on_more, c);
}

/*
 * The contents of the file, or the answer as JSON, are the process's stdout. Uses the output in the reply if it is
 * complete, else reads it from the spool.
 */
static void receive_output(struct codex_call *c, const json_t *result)
{
	const json_t *out = json_object_get(json_object_get(result, "output"), "stdout"),
		     *refs = json_object_get(result, "outputRefs");

	buf_reset(&c->file); /* what was written */
	c->total = (uint64_t)json_integer_value(json_object_get(out, "totalBytes"));
	if (c->total > FILE_MAX)
		return codex_call_fail(c, RPC_INTERNAL_ERROR, "the %s has more than %u bytes%s",
				       c->row->answer ? "answer" : "file", FILE_MAX,
				       c->row->answer ? "" : ": use fs/open and fs/readBlock");
	for (size_t i = 0; i < json_array_size(refs); i++)
		if (json_text_is(json_array_get(refs, i), "stream", "stdout"))
			(void)snprintf(c->file_output, sizeof(c->file_output), "%s",
				       json_get_text(json_array_get(refs, i), "outputRef"));
	if (!json_object_get(out, "omittedBytes"))
		append_bytes(c, out);
	read_more(c);
}

/* ---- one process ---- */

static void handle_result(struct codex_call *c, json_t *result)
{
	const json_t *code = json_object_get(result, "exitCode");

	if (!json_is_integer(code) || json_integer_value(code) != 0)
		return fail_tool(c, result);
	receive_output(c, result);
}

/*
 * Policy requires an approval. File methods do not wait for one (codex_server terminates the process), so the call
 * fails.
 */
static bool reject_asked(struct codex_call *c, const json_t *result)
{
	const char *status = json_get_text(result, "status");

	if (!json_text_is(result, "decision", "ask") || strcmp(status, "completed") == 0)
		return false;
	codex_call_fail(c, RPC_INVALID_REQUEST,
			"bailiff's policy asks an operator about this, and file methods do not wait for an answer");
	return true;
}

static void on_done(struct codex_call *c, json_t *result, json_t *error)
{
	if (error)
		codex_call_fail_daemon(c, error);
	else if (!reject_asked(c, result))
		handle_result(c, result);
}

/*
 * The nearest existing directory that contains the path (and `other`): the working directory for a request that names
 * no sandbox.
 */
static char *nearest_folder(const char *path, const char *other)
{
	char at[PATH_MAX];
	struct stat st;

	(void)snprintf(at, sizeof(at), "%s", path);
	while (path_up(at))
		if (stat(at, &st) == 0 && S_ISDIR(st.st_mode) && (!other || path_within(at, other)))
			break;
	return mem_strdup(at);
}

/* Makes the daemon reply when the process has ended, with its output. */
static void add_yield(json_t *params)
{
	json_object_set_new(params, "yieldMs", json_integer(YIELD_MS));
	json_object_set_new(params, "maxOutputBytes", json_integer(OUTPUT_BYTES));
}

/* Runs `bailiff-tool fs OPERATION FLAGS PATH [OTHER]` in the requested sandbox. */
static void launch_tool(struct codex_call *c, const char *operation, const char *flags, const char *path,
			const char *other, const json_t *sandbox,
			void (*launched)(struct codex_call *c, json_t *result, json_t *error))
{
	const json_t *cwd = json_object_get(sandbox, "cwd");
	json_t *command = json_pack("[sssss]", c->server->tool, "fs", operation, flags, path);

	if (!command)
		return codex_call_fail(c, RPC_INVALID_PARAMS, "the path is not UTF-8");
	if (other)
		json_array_append_new(command, json_string(other));
	c->start = json_pack("{so ss ss+}", "command", command, "onDisconnect", "terminate", "justification", "Codex ",
			     c->method->name);
	if (c->file.len)
		json_object_set_new(c->start, "stdin", json_string("pipe"));
	else
		add_yield(c->start);
	if (!json_is_string(cwd))
		c->cwd = nearest_folder(path, other);
	codex_launch(c, sandbox, launched);
}

/* Reads a range of a file. The bytes go to the call's read_done; if that is NULL, they become the result. */
static void read_range(struct codex_call *c, const char *path, const json_t *sandbox, uint64_t offset, uint64_t length)
{
	char flags[64];

	c->row = &rows[0];
	c->offset = offset;
	c->length = length;
	(void)write_flags(c, flags, sizeof(flags));
	launch_tool(c, c->row->operation, flags, path, NULL, sandbox, on_done);
}

void codex_fs_call(struct codex_call *c)
{
	char path[PATH_MAX], other[PATH_MAX], flags[128];

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].method, c->method->name) == 0)
			c->row = &rows[i];
	c->length = FILE_MAX + 1;
	if (!codex_call_path(c, c->row->path, path) || (c->row->other && !codex_call_path(c, c->row->other, other)) ||
	    !write_flags(c, flags, sizeof(flags)))
		return;
	launch_tool(c, c->row->operation, flags, path, c->row->other ? other : NULL,
		    json_object_get(c->params, "sandbox"), on_done);
}

/* ---- writing ---- */

static void write_more(struct codex_call *c);

static void on_write_done(void *ctx, json_t *result, json_t *error) { on_done(ctx, result, error); }

static void on_piece(void *ctx, json_t *result, json_t *error)
{
	struct codex_call *c = ctx;

	if (error) /* the process has ended; the last write reports why */
		c->sent = c->file.len;
	write_more(c);
}

static void write_more(struct codex_call *c)
{
	buf_auto struct buf text = BUF_INIT;
	size_t n = c->file.len - c->sent;
	bool last = n <= PIECE_BYTES;
	json_t *params;

	if (!last)
		n = PIECE_BYTES;
	text_base64_encode(c->file.data + c->sent, n, &text);
	c->sent += n;
	params = json_pack("{ss ss ss}", "processId", c->file_process, "data", buf_cstr(&text), "encoding", "base64");
	if (last)
		add_yield(params);
	gateway_session_mutate(c->server->session, "write_process_stdin", params, NULL, last ? on_write_done : on_piece,
			       c);
}

static void on_writer(struct codex_call *c, json_t *result, json_t *error)
{
	if (error || reject_asked(c, result)) {
		if (error)
			codex_call_fail_daemon(c, error);
		return;
	}
	if (!c->file.len)
		return handle_result(c, result);
	(void)snprintf(c->file_process, sizeof(c->file_process), "%s", json_get_text(result, "processId"));
	write_more(c);
}

void codex_fs_write_file(struct codex_call *c)
{
	static const struct codex_fs_row row = { "fs/writeFile", "write", "path", NULL, FLAGS_NONE, reply_empty };
	const char *data = codex_call_str(c, "dataBase64");
	char path[PATH_MAX], flags[32];

	if (!data || !codex_call_path(c, "path", path))
		return;
	if (text_base64_decode(data, strlen(data), &c->file) < 0)
		return codex_call_fail(c, RPC_INVALID_REQUEST, "fs/writeFile requires valid base64 dataBase64");
	c->row = &row;
	(void)snprintf(flags, sizeof(flags), "%zu", c->file.len);
	launch_tool(c, row.operation, flags, path, NULL, json_object_get(c->params, "sandbox"), on_writer);
}

/* ---- file handles ---- */

/*
 * Files that the client reads in blocks. A handle is a path and the sandbox in which it may be read. Each block is read
 * by a new process, so a handle keeps nothing open and need not be closed; if the file is replaced in between, later
 * blocks come from the new file.
 */

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
	if (strmap_get(&s->handles, id))
		return codex_call_fail(c, RPC_INVALID_REQUEST, "file handle `%s` already exists", id);
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
	if (strmap_get(&c->server->handles, id) || c->server->handles.count >= HANDLES_MAX)
		return codex_call_fail(c, RPC_INVALID_REQUEST,
				       strmap_get(&c->server->handles, id) ? "file handle `%s` already exists"
									   : "file handle `%s`: there are too many",
				       id);
	c->read_done = reply_read;
	read_range(c, path, json_object_get(c->params, "sandbox"), 0, 0);
}

void codex_fs_read_block(struct codex_call *c)
{
	const char *id = read_handle_id(c);
	const json_t *offset = id ? json_object_get(c->params, "offset") : NULL,
		     *length = id ? json_object_get(c->params, "len") : NULL;

	if (!id)
		return;
	if (!json_is_integer(offset) || json_integer_value(offset) < 0 || !json_is_integer(length))
		return codex_call_fail(c, RPC_INVALID_PARAMS, "offset and len must be numbers, not below 0");
	if (json_integer_value(length) < 1 || json_integer_value(length) > (json_int_t)BLOCK_MAX)
		return codex_call_fail(c, RPC_INVALID_REQUEST, "file read block length must be between 1 and %u",
				       BLOCK_MAX);
	const struct codex_handle *h = strmap_get(&c->server->handles, id);
	if (!h)
		return codex_call_fail(c, CODEX_NOT_FOUND, "unknown file handle `%s`", id);
	c->read_done = reply_read;
	read_range(c, h->path, h->sandbox, (uint64_t)json_integer_value(offset), (uint64_t)json_integer_value(length));
}

void codex_fs_close(struct codex_call *c)
{
	const char *id = read_handle_id(c);

	if (!id)
		return;
	handle_free(strmap_del(&c->server->handles, id));
	codex_call_reply(c, json_object());
}
