/* The content of messages: prompts of the editor as parts of a turn, and calls of tools as an editor shows them. */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/file_uri.h"
#include "supervisor/tool/patch.h"

#include <stdio.h>
#include <string.h>

#define TITLE_BYTES 300

static const struct acp_tool {
	const char *name, *kind, *verb, *member;
} tools[] = {
#define ACP_TOOL(name, kind, verb, member) { name, kind, verb, member },
#include "supervisor/gateway/acp/acp_tools.def"
#undef ACP_TOOL
};

static const struct acp_tool *find_tool(const char *name)
{
	for (size_t i = 0; i < countof(tools); i++)
		if (strcmp(tools[i].name, name) == 0)
			return &tools[i];
	return NULL;
}

bool acp_content_is_edit(const char *tool)
{
	const struct acp_tool *t = find_tool(tool);

	return t && strcmp(t->kind, "edit") == 0;
}

json_t *acp_content_text(const char *text, size_t n)
{
	return json_pack("{ss s{ss so}}", "type", "content", "content", "type", "text", "text",
			 rpc_message_text(text, n));
}

/* ---- prompts ---- */

/* A file by its path; what is not a file, by its URI. */
static void add_reference(const char *uri, struct buf *out)
{
	char path[PATH_MAX];
	struct err e = ERR_INIT;

	buf_str(out, file_uri_path(uri, path, &e) == 0 ? path : uri);
}

/* U+FFFD for NUL, which the daemon rejects. */
static void add_string(const json_t *text, struct buf *out)
{
	const char *s = json_string_value(text), *end = s + json_string_length(text);

	for (; s < end; s += strlen(s) + 1) {
		buf_str(out, s);
		if (s + strlen(s) < end)
			buf_str(out, "\xef\xbf\xbd");
	}
}

static int add_block(const json_t *block, struct buf *out, json_t *parts)
{
	const json_t *resource = json_object_get(block, "resource");
	const bool blob = json_text_is(block, "type", "resource") && json_get_string(resource, "blob");
	const char *uri = json_get_string(blob ? resource : block, "uri");

	if (json_text_is(block, "type", "text") && json_get_string(block, "text")) {
		add_string(json_object_get(block, "text"), out);
	} else if ((blob || json_text_is(block, "type", "resource_link")) && uri) {
		buf_byte(out, '@');
		add_reference(uri, out);
	} else if (json_text_is(block, "type", "resource") && json_get_string(resource, "text")) {
		buf_str(out, "\n<file name=\"");
		add_reference(json_get_text(resource, "uri"), out);
		buf_str(out, "\">\n");
		add_string(json_object_get(resource, "text"), out);
		buf_str(out, "\n</file>\n");
	} else if (json_text_is(block, "type", "image") && json_get_string(block, "data")) {
		/* The daemon checks the bytes, and takes the type from them. */
		json_array_append_new(parts,
				      json_pack("{ss sO}", "type", "image", "data", json_object_get(block, "data")));
	} else {
		return -1;
	}
	return 0;
}

json_t *acp_content_prompt(const json_t *blocks, struct err *e)
{
	json_auto_t *parts = json_array();
	buf_auto struct buf text = BUF_INIT;
	const json_t *block;
	size_t i;

	json_array_foreach (blocks, i, block)
		if (add_block(block, &text, parts) < 0) {
			err_field(e, "prompt",
				  "block %zu, of type '%.40s', is not text with text, an image with data, a "
				  "resource_link with a uri, or a resource with text or a blob",
				  i, json_get_text(block, "type"));
			return NULL;
		}
	/* ACP allows images alone; a turn needs text. */
	if (!text.len && json_array_size(parts))
		buf_str(&text, "See the attached image.");
	if (!text.len) {
		err_field(e, "prompt", "must have at least one block with text or an image");
		return NULL;
	}
	json_array_insert_new(parts, 0,
			      json_pack("{ss so}", "type", "text", "text", rpc_message_text(text.data, text.len)));
	return json_incref(parts);
}

/* ---- calls ---- */

static void absolute_path(const char *path, const char *cwd, char ret[PATH_MAX])
{
	mem_auto char *joined = path[0] == '/' ? mem_strdup(path) : mem_printf("%s/%s", cwd, path);
	struct err e = ERR_INIT;

	if (path_clean(joined, ret, &e) < 0)
		snprintf(ret, PATH_MAX, "%s", cwd);
}

/* `old` NULL: the file is new, or all of it is replaced. */
static json_t *diff_of(const char *path, const char *cwd, const struct buf *old, const struct buf *new)
{
	char at[PATH_MAX];

	absolute_path(path, cwd, at);
	return json_pack("{ss so so so}", "type", "diff", "path", rpc_message_text(at, strlen(at)), "oldText",
			 old ? rpc_message_text(old->data, old->len) : json_null(), "newText",
			 rpc_message_text(new->data, new->len));
}

static void add_line(const struct patch_line *l, struct buf *out)
{
	buf_append(out, l->text, l->len);
	buf_byte(out, '\n');
}

/* Each hunk is a diff: the rest of the file is not in the patch. */
static void add_patched_file(const struct patch_file *f, const char *cwd, json_t *content)
{
	for (size_t i = 0; i < f->nhunks; i++) {
		const struct patch_hunk *h = &f->hunks[i];
		buf_auto struct buf old = BUF_INIT, new = BUF_INIT;

		for (size_t k = 0; k < h->nlines; k++) {
			if (h->lines[k].kind != '+')
				add_line(&h->lines[k], &old);
			if (h->lines[k].kind != '-')
				add_line(&h->lines[k], &new);
		}
		json_array_append_new(content, diff_of(f->move_to ? f->move_to : f->path, cwd,
						       f->change == PATCH_ADD ? NULL : &old, &new));
	}
	if (f->change == PATCH_DELETE && !f->nhunks) {
		mem_auto char *text = mem_printf("Deletes %s", f->path);

		json_array_append_new(content, acp_content_text(text, strlen(text)));
	}
}

static void add_location(const char *path, const char *cwd, json_t *locations)
{
	char at[PATH_MAX];

	absolute_path(path, cwd, at);
	json_array_append_new(locations, json_pack("{so}", "path", rpc_message_text(at, strlen(at))));
}

static void add_patch(const json_t *args, const char *cwd, json_t *content, json_t *locations)
{
	const char *text = json_get_text(args, "patch");
	patch_auto struct patch p = { 0 };
	struct err e = ERR_INIT;

	if (patch_parse(text, strlen(text), &p, &e) < 0)
		return; /* the call will fail with the reason */
	for (size_t i = 0; i < p.nfiles; i++) {
		add_patched_file(&p.files[i], cwd, content);
		add_location(p.files[i].path, cwd, locations);
	}
}

static void add_member(const json_t *args, const char *key, struct buf *out)
{
	const json_t *v = json_object_get(args, key);

	buf_append(out, json_is_string(v) ? json_string_value(v) : "", json_string_length(v));
}

/* Decodes base64. False: the bytes are not text that can be shown. */
static bool decode_text(struct buf *text)
{
	buf_auto struct buf bytes = BUF_INIT;

	if (text_base64_decode(buf_cstr(text), text->len, &bytes) < 0)
		return false; /* the call will fail with the reason */
	buf_reset(text);
	buf_append(text, buf_cstr(&bytes), bytes.len);
	return text_utf8_valid(buf_cstr(text), text->len) && !memchr(buf_cstr(text), '\0', text->len);
}

static void add_edit(const char *tool, const json_t *args, const char *cwd, json_t *content, json_t *locations)
{
	buf_auto struct buf old = BUF_INIT, new = BUF_INIT;
	bool whole = strcmp(tool, "write_file") == 0;

	if (strcmp(tool, "apply_patch") == 0)
		return add_patch(args, cwd, content, locations);
	add_member(args, "oldText", &old);
	add_member(args, whole ? "content" : "newText", &new);
	if (whole && json_text_is(args, "encoding", "base64") && !decode_text(&new)) {
		mem_auto char *text = mem_printf("Writes %zu bytes that are not text", new.len);

		json_array_append_new(content, acp_content_text(text, strlen(text)));
		return;
	}
	json_array_append_new(content, diff_of(json_get_text(args, "path"), cwd, whole ? NULL : &old, &new));
}

static json_t *title_of(const struct acp_tool *t, const char *tool, const json_t *args)
{
	buf_auto struct buf text = BUF_INIT, shown = BUF_INIT;

	if (t) {
		const json_t *v = json_object_get(args, t->member), *word;
		size_t i;

		buf_str(&text, t->verb);
		if (!v && strcmp(tool, "shell") == 0)
			v = json_object_get(args, "commandLine");
		if (json_is_string(v))
			text_ends(json_string_value(v), json_string_length(v), TITLE_BYTES, &text);
		json_array_foreach (v, i, word)
			buf_printf(&text, "%s%s", i ? " " : "", json_string_value(word) ? json_string_value(word) : "");
	}
	if (!text.len || (t && text.len == strlen(t->verb) && t->member[0])) {
		text.len = 0;
		buf_str(&text, tool);
	}
	text_sanitize_line(text.data, text.len, &shown);
	return rpc_message_text(shown.data, shown.len);
}

json_t *acp_content_call(const char *tool, const json_t *args, const char *cwd)
{
	const struct acp_tool *t = find_tool(tool);
	json_t *call = json_pack("{so ss}", "title", title_of(t, tool, args), "kind", t ? t->kind : "other"),
	       *content = json_array(), *locations = json_array();

	if (args) {
		json_object_set(call, "rawInput", (json_t *)(uintptr_t)args);
		if (json_get_string(args, "path"))
			add_location(json_get_text(args, "path"), cwd, locations);
		if (acp_content_is_edit(tool))
			add_edit(tool, args, cwd, content, locations);
	}
	if (json_array_size(content))
		json_object_set(call, "content", content);
	if (json_array_size(locations))
		json_object_set(call, "locations", locations);
	json_decref(content);
	json_decref(locations);
	return call;
}
