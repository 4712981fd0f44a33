/*
 * The text of a file as the editor has it, for a file tool that asks for it (supervisor/tool/tool_editor.c).
 *
 * An editor opens a path with the rights of the user. Therefore it is asked only for a file that the sandbox of the
 * call may read, and its answer counts only if the path named that file all the time:
 *
 *   1. The tool has opened the file in its sandbox, and says which one: path without links, device, inode.
 *   2. The daemon's description of that sandbox (sandbox.applied) shows the path. This does not depend on the tool,
 *      which other commands in the sandbox could take over.
 *   3. Outside of the sandbox the path names the same file without links, from before the request to the editor until
 *      after its answer (path_guard.h). Commands in the sandbox may exchange a directory for a link at any time.
 *
 * Otherwise, and if the editor has no answer, the tool uses the file on disk. Files are never written through the
 * editor: an exchange would be noticed only when the wrong file is already written.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "supervisor/gateway/acp/path_guard.h"

#include <stdio.h>
#include <string.h>

#define TEXT_MAX (2u << 20)

struct acp_buffer {
	TAILQ_ENTRY(acp_buffer) entry;
	struct acp_session *session;
	uint64_t number; /* of the request to the editor */
	char process_id[ACP_ID_MAX];
	struct path_guard guard;
};

static void buffer_free(struct acp_buffer *b)
{
	TAILQ_REMOVE(&b->session->buffers, b, entry);
	path_guard_done(&b->guard);
	free(b);
}

void acp_buffer_drop_all(struct acp_session *s)
{
	struct acp_buffer *b;

	while ((b = TAILQ_FIRST(&s->buffers)))
		buffer_free(b);
}

/* Takes ownership of `answer`. If the tool no longer waits, this fails, which changes nothing. */
static void answer_tool(struct acp_session *s, const char *process_id, json_t *answer)
{
	buf_auto struct buf line = BUF_INIT;

	rpc_message_write(answer, true, &line);
	json_decref(answer);
	gateway_session_mutate_async(s->up, "write_process_stdin",
				     json_pack("{ss ss%}", "processId", process_id, "data", line.data, line.len), NULL);
}

/* The length of the longest path in the list that contains this one; 0 = none does. */
static size_t depth_in(const json_t *profile, const char *list, const char *path)
{
	const json_t *v;
	size_t i, best = 0;

	json_array_foreach (json_object_get(profile, list), i, v) {
		size_t n = json_string_length(v);

		if (json_is_string(v) && n > best && path_within(json_string_value(v), path))
			best = n;
	}
	return best;
}

/* The innermost entry applies. */
static bool sandbox_shows(const json_t *profile, const char *path)
{
	size_t shown = 0, hidden = 0;
	static const char *const shows[] = { "readRoots", "writeRoots", "protected" }, *const hides[] = { "hidden",
													  "private" };

	if (!json_is_false(json_object_get(profile, "copyOnWrite")))
		return false;
	for (size_t i = 0; i < countof(shows); i++)
		shown = depth_in(profile, shows[i], path) > shown ? depth_in(profile, shows[i], path) : shown;
	for (size_t i = 0; i < countof(hides); i++)
		hidden = depth_in(profile, hides[i], path) > hidden ? depth_in(profile, hides[i], path) : hidden;
	return shown > hidden;
}

void acp_buffer_request(struct acp_session *s, const char *process_id, const json_t *profile, const char *line)
{
	json_auto_t *request = json_loads(line, 0, NULL);
	const char *path = json_get_string(request, "path");
	struct acp_buffer *b = mem_zalloc(1, sizeof(*b));

	b->session = s;
	b->guard.watch = -1;
	snprintf(b->process_id, sizeof(b->process_id), "%s", process_id);
	TAILQ_INSERT_TAIL(&s->buffers, b, entry);
	if (!path || !sandbox_shows(profile, path) ||
	    !path_guard_begin(&b->guard, path, json_get_uint(request, "device"), json_get_uint(request, "inode"))) {
		answer_tool(s, process_id, json_object());
		buffer_free(b);
		return;
	}
	b->number = acp_request(s->server, "fs/read_text_file", json_pack("{ss ss}", "sessionId", s->id, "path", path));
}

bool acp_buffer_response(struct acp_server *server, uint64_t number, const json_t *result)
{
	const json_t *text = json_object_get(result, "content");
	struct acp_session *s;
	struct acp_buffer *b;

	TAILQ_FOREACH (s, &server->sessions, entry)
		TAILQ_FOREACH (b, &s->buffers, entry)
			if (b->number == number) {
				bool counts = path_guard_end(&b->guard) && json_is_string(text) &&
					      json_string_length(text) <= TEXT_MAX;

				answer_tool(s, b->process_id,
					    counts ? json_pack("{sO}", "text", (json_t *)(uintptr_t)text)
						   : json_object());
				buffer_free(b);
				return true;
			}
	return false;
}
