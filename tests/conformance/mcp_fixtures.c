#include "tests/conformance/mcp_fixtures.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <string.h>

#define STEP_MS 50u
#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="

/* ---- content that is always the same ---- */

static const struct {
	const char *tool, *result;
} results[] = {
	{ "test_simple_text",
	  MCP_SCHEMA({ "content" : [ { "type" : "text", "text" : "This is a simple text response for testing." } ] }) },
	{ "test_image_content",
	  "{\"content\": [{\"type\": \"image\", \"data\": \"" PNG "\", \"mimeType\": \"image/png\"}]}" },
	{ "test_audio_content",
	  "{\"content\": [{\"type\": \"audio\", \"data\": \"" WAV "\", \"mimeType\": \"audio/wav\"}]}" },
	{ "test_embedded_resource", MCP_SCHEMA({
		  "content" : [ {
			  "type" : "resource",
			  "resource" : {
				  "uri" : "test://embedded-resource",
				  "mimeType" : "text/plain",
				  "text" : "This is an embedded resource content."
			  }
		  } ]
	  }) },
	{ "test_multiple_content_types",
	  "{\"content\": [{\"type\": \"text\", \"text\": \"Multiple content types test:\"},"
	  "{\"type\": \"image\", \"data\": \"" PNG "\", \"mimeType\": \"image/png\"},"
	  "{\"type\": \"resource\", \"resource\": {\"uri\": \"test://mixed-content-resource\", \"mimeType\": "
	  "\"application/json\","
	  "\"text\": \"{\\\"test\\\":\\\"data\\\",\\\"value\\\":123}\"}}]}" },
	{ "test_error_handling", MCP_SCHEMA({
		  "isError" : true,
		  "content" : [ { "type" : "text", "text" : "This tool intentionally returns an error for testing" } ]
	  }) },
	{ "json_schema_2020_12_tool",
	  MCP_SCHEMA({ "content" : [ { "type" : "text", "text" : "The arguments follow the schema." } ] }) },
};

static void canned(struct mcp_call *c)
{
	for (size_t i = 0; i < countof(results); i++)
		if (strcmp(results[i].tool, c->name) == 0) {
			mcp_call_finish(c, json_loads(results[i].result, 0, NULL));
			return;
		}
	mcp_call_tool_error(c, "there is nothing to say");
}

static void reply_text(struct mcp_call *c, const char *text) { mcp_call_finish(c, mcp_call_text(text, strlen(text))); }

/* ---- long-running calls ---- */

static void logged(struct mcp_call *c)
{
	mcp_call_log(c, "info", NULL, json_string("Tool execution completed"));
	reply_text(c, "Three lines were logged.");
}

static void log_more(struct mcp_call *c)
{
	mcp_call_log(c, "info", NULL, json_string("Tool processing data"));
	mcp_call_set_timer(c, STEP_MS, logged);
}

static void with_logging(struct mcp_call *c)
{
	mcp_call_log(c, "info", NULL, json_string("Tool execution started"));
	mcp_call_set_timer(c, STEP_MS, log_more);
}

static void progressed(struct mcp_call *c)
{
	mcp_call_progress(c, 100, 100, NULL);
	reply_text(c, "Progress was told three times.");
}

static void progress_more(struct mcp_call *c)
{
	mcp_call_progress(c, 50, 100, NULL);
	mcp_call_set_timer(c, STEP_MS, progressed);
}

static void with_progress(struct mcp_call *c)
{
	mcp_call_progress(c, 0, 100, NULL);
	mcp_call_set_timer(c, STEP_MS, progress_more);
}

static void done(struct mcp_call *c) { reply_text(c, "Done after a while."); }

static void slowly(struct mcp_call *c) { mcp_call_set_timer(c, 10 * STEP_MS, done); }

static void change_tools(struct mcp_call *c)
{
	mcp_session_list_changed(c->mcp, "tools");
	reply_text(c, "The list of tools has changed.");
}

static void change_prompts(struct mcp_call *c)
{
	mcp_session_list_changed(c->mcp, "prompts");
	reply_text(c, "The list of prompts has changed.");
}

/* ---- tasks ---- */

static void greet(struct mcp_call *c)
{
	const char *name = json_get_string(c->arguments, "name");
	mem_auto char *text = mem_printf("Hello, %s!", name ? name : "World");

	reply_text(c, text);
}

static void slow_compute(struct mcp_call *c)
{
	mcp_call_set_timer(c, (unsigned)(json_number_value(json_object_get(c->arguments, "seconds")) * 1000), done);
}

static void job_failed(struct mcp_call *c) { mcp_call_tool_error(c, "The job failed, as it always does."); }

static void failing_job(struct mcp_call *c) { mcp_call_set_timer(c, 20 * STEP_MS, job_failed); }

static void job_broke(struct mcp_call *c)
{
	mcp_call_fail(c, RPC_INTERNAL_ERROR, NULL, "The job broke, as it always does.");
}

static void protocol_error_job(struct mcp_call *c) { mcp_call_set_timer(c, 2 * STEP_MS, job_broke); }

/* ---- resources and prompts ---- */

static void read_static(struct mcp_call *c)
{
	bool binary = strcmp(c->uri, "test://static-binary") == 0;
	const char *text = strcmp(c->uri, "test://static-text") == 0
				   ? "This is the content of the static text resource."
				   : "Watched.";

	mcp_call_finish(c,
			json_pack("{s[{ss ss ss}]}", "contents", "uri", c->uri, "mimeType",
				  binary ? "image/png" : "text/plain", binary ? "blob" : "text", binary ? PNG : text));
}

static void read_template(struct mcp_call *c)
{
	const char *id = json_get_string(c->vars, "id");
	mem_auto char *data = mem_printf("Data for ID: %s", id);
	json_auto_t *body = json_pack("{ss sb ss}", "id", id, "templateTest", 1, "data", data);
	char *text = json_dumps(body, JSON_COMPACT);

	mcp_call_finish(c, json_pack("{s[{ss ss ss}]}", "contents", "uri", c->uri, "mimeType", "application/json",
				     "text", text));
	free(text);
}

static json_t *message(json_t *content) { return json_pack("{ss so}", "role", "user", "content", content); }

static void get_prompt(struct mcp_call *c)
{
	if (strcmp(c->name, "test_simple_prompt") == 0) {
		mcp_prompt_finish(c, "A simple prompt", "This is a simple prompt for testing.");
		return;
	}
	if (strcmp(c->name, "test_prompt_with_arguments") == 0) {
		mem_auto char *text = mem_printf("Prompt with arguments: arg1='%s', arg2='%s'",
						 mcp_prompt_argument(c, "arg1"), mcp_prompt_argument(c, "arg2"));
		mcp_prompt_finish(c, "A prompt with arguments", text);
		return;
	}
	bool image = strcmp(c->name, "test_prompt_with_image") == 0;
	json_t *first = image ? json_pack("{ss ss ss}", "type", "image", "data", PNG, "mimeType", "image/png")
			      : json_pack("{ss s{ss ss ss}}", "type", "resource", "resource", "uri",
					  mcp_prompt_argument(c, "resourceUri"), "mimeType", "text/plain", "text",
					  "Embedded resource content for testing.");
	json_t *second = json_pack("{ss ss}", "type", "text", "text",
				   image ? "Please analyze the image above."
					 : "Please process the embedded resource above.");
	mcp_call_finish(c, json_pack("{s[oo]}", "messages", message(first), message(second)));
}

static void complete_argument(struct mcp_call *c)
{
	static const char *const words[] = { "paris", "park", "party" };
	const char *typed = json_string_value(json_object_get(json_object_get(c->params, "argument"), "value"));
	json_t *values = json_array();

	for (size_t i = 0; i < countof(words); i++)
		if (strncmp(words[i], typed, strlen(typed)) == 0)
			json_array_append_new(values, json_string(words[i]));
	mcp_resource_completion(c, values);
}

/* ---- tables ---- */

#define ABOUT "For the conformance suite only."
#define TOOL(...)
#define TOOL_WITH(...)
#define RESOURCE(...)
#define TEMPLATE(...)
#define PROMPT(...)

#undef TOOL
#undef TOOL_WITH
#define TOOL(name, task, input, call) TOOL_WITH(name, TOOL_READS, task, input, call)
#define TOOL_WITH(name, hints, task, input, call) { name, name, ABOUT, hints, task, input, NULL, call },
static const struct mcp_tool tools[] = {
#include "tests/conformance/mcp_fixtures.def"
};
#undef TOOL
#undef TOOL_WITH
#define TOOL(...)
#define TOOL_WITH(...)

#undef RESOURCE
#undef TEMPLATE
#define RESOURCE(uri, name, mime, read) { uri, name, name, ABOUT, mime, read, NULL, false },
#define TEMPLATE(uri, name, mime, read) { uri, name, name, ABOUT, mime, read, NULL, true },
static const struct mcp_resource resources[] = {
#include "tests/conformance/mcp_fixtures.def"
};
#undef RESOURCE
#undef TEMPLATE
#define RESOURCE(...)
#define TEMPLATE(...)

#undef PROMPT
#define PROMPT(name, arguments, get, complete) { name, name, ABOUT, arguments, get, complete },
static const struct mcp_prompt prompts[] = {
#include "tests/conformance/mcp_fixtures.def"
};

const struct mcp_tables mcp_fixtures = {
	.tools = tools,
	.ntools = countof(tools),
	.resources = resources,
	.nresources = countof(resources),
	.prompts = prompts,
	.nprompts = countof(prompts),
};
