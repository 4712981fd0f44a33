#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "tests/conformance/mcp_fixtures.h"

#include <stdio.h>
#include <string.h>

/* What each of them asks for: key, method and params. */
static const struct question {
	const char *of, *key, *method, *params;
} questions[] = {
	{ "test_elicitation_sep1034_defaults", "answer", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Please review and update the form fields with defaults",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : {
				  "name" : { "type" : "string", "description" : "User name", "default" : "John Doe" },
				  "age" : { "type" : "integer", "description" : "User age", "default" : 30 },
				  "score" : { "type" : "number", "description" : "User score", "default" : 95.5 },
				  "status" : {
					  "type" : "string",
					  "description" : "User status",
					  "enum" : [ "active", "inactive", "pending" ],
					  "default" : "active"
				  },
				  "verified" : {
					  "type" : "boolean",
					  "description" : "Verification status",
					  "default" : true
				  }
			  },
			  "required" : []
		  }
	  }) },
	{ "test_elicitation_sep1330_enums", "answer", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Please select options from the enum fields",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : {
				  "untitledSingle" :
					  { "type" : "string", "enum" : [ "option1", "option2", "option3" ] },
				  "titledSingle" : {
					  "type" : "string",
					  "oneOf" : [
						  { "const" : "value1", "title" : "First Option" },
						  { "const" : "value2", "title" : "Second Option" },
						  { "const" : "value3", "title" : "Third Option" }
					  ]
				  },
				  "legacyEnum" : {
					  "type" : "string",
					  "enum" : [ "opt1", "opt2", "opt3" ],
					  "enumNames" : [ "Option One", "Option Two", "Option Three" ]
				  },
				  "untitledMulti" : {
					  "type" : "array",
					  "items" : { "type" : "string", "enum" : [ "option1", "option2", "option3" ] }
				  },
				  "titledMulti" : {
					  "type" : "array",
					  "items" : {
						  "anyOf" : [
							  { "const" : "value1", "title" : "First Choice" },
							  { "const" : "value2", "title" : "Second Choice" },
							  { "const" : "value3", "title" : "Third Choice" }
						  ]
					  }
				  }
			  },
			  "required" : []
		  }
	  }) },
	{ "test_streaming_elicitation", "answer", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Go on?",
		  "requestedSchema" :
			  { "type" : "object", "properties" : { "ok" : { "type" : "boolean" } }, "required" : ["ok"] }
	  }) },
	{ "test_input_required_result_elicitation", "user_name", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "What is your name?",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : { "name" : { "type" : "string" } },
			  "required" : ["name"]
		  }
	  }) },
	{ "test_input_required_result_sampling", "capital_question", "sampling/createMessage", MCP_SCHEMA({
		  "messages" : [ {
			  "role" : "user",
			  "content" : { "type" : "text", "text" : "What is the capital of France?" }
		  } ],
		  "maxTokens" : 100
	  }) },
	{ "test_input_required_result_list_roots", "client_roots", "roots/list", "{}" },
	{ "test_input_required_result_request_state", "confirm", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Please confirm",
		  "requestedSchema" :
			  { "type" : "object", "properties" : { "ok" : { "type" : "boolean" } }, "required" : ["ok"] }
	  }) },
	{ "test_input_required_result_tampered_state", "confirm", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Please confirm",
		  "requestedSchema" :
			  { "type" : "object", "properties" : { "ok" : { "type" : "boolean" } }, "required" : ["ok"] }
	  }) },
	{ "test_input_required_result_multiple_inputs", "user_name", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "What is your name?",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : { "name" : { "type" : "string" } },
			  "required" : ["name"]
		  }
	  }) },
	{ "test_input_required_result_multiple_inputs", "greeting", "sampling/createMessage", MCP_SCHEMA({
		  "messages" : [ { "role" : "user", "content" : { "type" : "text", "text" : "Generate a greeting" } } ],
		  "maxTokens" : 50
	  }) },
	{ "test_input_required_result_multiple_inputs", "client_roots", "roots/list", "{}" },
	{ "test_input_required_result_prompt", "user_context", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "What context should the prompt use?",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : { "context" : { "type" : "string" } },
			  "required" : ["context"]
		  }
	  }) },
	{ "confirm_delete", "confirm", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Delete it?",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : { "confirm" : { "type" : "boolean" } },
			  "required" : ["confirm"]
		  }
	  }) },
	{ "multi_input", "first", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "A name?",
		  "requestedSchema" : { "type" : "object", "properties" : { "name" : { "type" : "string" } } }
	  }) },
	{ "multi_input", "second", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "Sure?",
		  "requestedSchema" : { "type" : "object", "properties" : { "confirm" : { "type" : "boolean" } } }
	  }) },
	{ "test_tool_with_task", "user_name", "elicitation/create", MCP_SCHEMA({
		  "mode" : "form",
		  "message" : "What is your name?",
		  "requestedSchema" : {
			  "type" : "object",
			  "properties" : { "name" : { "type" : "string" } },
			  "required" : ["name"]
		  }
	  }) },
};

static const char *capability_of(const char *method)
{
	return strcmp(method, "elicitation/create") == 0 ? "elicitation.form"
	       : strcmp(method, "roots/list") == 0       ? "roots"
							 : "sampling";
}

/* Names the questions of a fixture; false: the client lacks what they need, and the call has been failed. */
static bool name_questions(struct mcp_call *c)
{
	for (size_t i = 0; i < countof(questions); i++) {
		const struct question *q = &questions[i];

		if (strcmp(q->of, c->name) != 0)
			continue;
		if (!mcp_call_can(c, capability_of(q->method))) {
			mcp_call_lacks(c, capability_of(q->method));
			return false;
		}
		mcp_call_question(c, q->key, q->method, json_loads(q->params, 0, NULL));
	}
	return true;
}

/* ---- one round ---- */

/* Everything that was answered, as text. */
static char *answers(struct mcp_call *c)
{
	json_auto_t *all = json_object();

	for (size_t i = 0; i < countof(questions); i++)
		if (strcmp(questions[i].of, c->name) == 0 && mcp_call_answer(c, questions[i].key))
			json_object_set(all, questions[i].key, mcp_call_answer(c, questions[i].key));
	return json_dumps(all, JSON_COMPACT);
}

static void finish(struct mcp_call *c)
{
	char *text = c->data;
	mem_auto char *whole = mem_printf("%sAnswered: %s", c->kept ? "state-ok. " : "", text);

	if (strstr(c->name, "prompt"))
		mcp_prompt_finish(c, "A prompt that asked", whole);
	else
		mcp_call_finish(c, mcp_call_text(whole, strlen(whole)));
}

static void on_round(struct mcp_call *c)
{
	c->data = answers(c);
	c->data_free = free;
	if (strcmp(c->name, "test_tool_with_task") == 0)
		mcp_task_convert(c, finish);
	else
		finish(c);
}

void fixture_round(struct mcp_call *c)
{
	if (name_questions(c))
		mcp_call_ask(c, json_pack("{sb}", "asked", 1), on_round);
}

/* ---- elicitations of legacy clients ---- */

static void on_elicited(struct mcp_call *c)
{
	const json_t *answer = mcp_call_answer(c, "answer");
	const char *action = json_get_string(answer, "action");
	char *content = json_dumps(json_object_get(answer, "content"), JSON_COMPACT);
	mem_auto char *text = strcmp(c->name, "test_elicitation") == 0
				      ? mem_printf("User response: action: %s, content: %s", action ? action : "none",
						   content ? content : "{}")
				      : mem_printf("Elicitation completed: action=%s, content=%s",
						   action ? action : "none", content ? content : "{}");

	free(content);
	mcp_call_finish(c, mcp_call_text(text, strlen(text)));
}

void fixture_elicit(struct mcp_call *c)
{
	const json_t *asked = json_object_get(c->arguments, "message");

	if (strcmp(c->name, "test_elicitation") != 0) {
		if (name_questions(c))
			mcp_call_ask(c, NULL, on_elicited);
		return;
	}
	if (!mcp_call_can(c, "elicitation.form")) {
		mcp_call_lacks(c, "elicitation.form");
		return;
	}
	mcp_call_question(c, "answer", "elicitation/create",
			  json_pack("{ss sO s{ss s{s{ss ss} s{ss ss}} s[ss]}}", "mode", "form", "message", asked,
				    "requestedSchema", "type", "object", "properties", "username", "type", "string",
				    "description", "User's response", "email", "type", "string", "description",
				    "User's email address", "required", "username", "email"));
	mcp_call_ask(c, NULL, on_elicited);
}

static void on_sampled(struct mcp_call *c)
{
	const json_t *content = json_object_get(mcp_call_answer(c, "answer"), "content");
	const char *said = json_get_string(content, "text");
	mem_auto char *text = mem_printf("LLM response: %s", said ? said : "none");

	mcp_call_finish(c, mcp_call_text(text, strlen(text)));
}

void fixture_sampling(struct mcp_call *c)
{
	if (!mcp_call_can(c, "sampling")) {
		mcp_call_lacks(c, "sampling");
		return;
	}
	mcp_call_question(c, "answer", "sampling/createMessage",
			  json_pack("{s[{ss s{ss sO}}] si}", "messages", "role", "user", "content", "type", "text",
				    "text", json_object_get(c->arguments, "prompt"), "maxTokens", 100));
	mcp_call_ask(c, NULL, on_sampled);
}

void fixture_missing(struct mcp_call *c)
{
	if (mcp_call_can(c, "sampling"))
		mcp_call_finish(c, mcp_call_text("The client can sample.", 22));
	else
		mcp_call_lacks(c, "sampling");
}

/* ---- what depends on the client, and more than one round ---- */

static void on_some(struct mcp_call *c) { mcp_call_finish(c, mcp_call_text("Thanks.", 7)); }

void fixture_capabilities(struct mcp_call *c)
{
	if (mcp_call_can(c, "elicitation.form"))
		mcp_call_question(c, "form", "elicitation/create", json_loads(questions[3].params, 0, NULL));
	if (mcp_call_can(c, "sampling"))
		mcp_call_question(c, "sample", "sampling/createMessage", json_loads(questions[4].params, 0, NULL));
	if (mcp_call_can(c, "elicitation.form") || mcp_call_can(c, "sampling"))
		mcp_call_ask(c, NULL, on_some);
	else
		mcp_call_lacks(c, "sampling");
}

static void ask_name(struct mcp_call *c, const char *key, const char *what, const char *member, json_t *keep,
		     mcp_call_fn then)
{
	if (!mcp_call_can(c, "elicitation.form")) {
		json_decref(keep);
		mcp_call_lacks(c, "elicitation.form");
		return;
	}
	mcp_call_question(c, key, "elicitation/create",
			  json_pack("{ss ss s{ss s{s{ss}} s[s]}}", "mode", "form", "message", what, "requestedSchema",
				    "type", "object", "properties", member, "type", "string", "required", member));
	mcp_call_ask(c, keep, then);
}

static void on_second(struct mcp_call *c)
{
	const json_t *color = json_object_get(json_object_get(mcp_call_answer(c, "step2"), "content"), "color");
	const char *name = json_get_string(c->kept, "name"), *word = json_string_value(color);
	mem_auto char *text = mem_printf("%s likes %s.", name ? name : "Nobody", word ? word : "nothing");

	mcp_call_finish(c, mcp_call_text(text, strlen(text)));
}

static void on_first(struct mcp_call *c)
{
	const json_t *name = json_object_get(json_object_get(mcp_call_answer(c, "step1"), "content"), "name");
	json_t *keep = json_pack("{si so}", "round", 2, "name",
				 json_is_string(name) ? json_copy((json_t *)name) : json_string(""));

	json_decref(c->kept);
	c->kept = json_incref(keep);
	ask_name(c, "step2", "Step 2: What is your favorite color?", "color", keep, on_second);
}

void fixture_rounds(struct mcp_call *c)
{
	if (json_integer_value(json_object_get(c->kept, "round")) == 2)
		ask_name(c, "step2", "Step 2: What is your favorite color?", "color", json_incref(c->kept), on_second);
	else
		ask_name(c, "step1", "Step 1: What is your name?", "name", json_pack("{si}", "round", 1), on_first);
}
