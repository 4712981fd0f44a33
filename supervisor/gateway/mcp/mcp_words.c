#include "supervisor/gateway/mcp/mcp_words.h"

#include "runtime/base/mem.h"

#include <string.h>

static const char *text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* Parameters, by how a message begins. */
static const struct {
	const char *theirs, *ours;
} parameters[] = {
	{ "commandLine:", "command:" }, { "command[0]:", "command:" }, { "sandbox.", "" }, { "limits.wallMs:", "timeoutMs:" }, { "limits.idleMs:", "idleTimeoutMs:" },
	{ "limits.", "" }, { "tty.", "" }, { "until.text:", "waitForText:" }, { "until.regex:", "waitForRegex:" }, { "until.", "" },
};

/* Ways out, by how a message ends. */
static const struct {
	const char *theirs, *ours;
} ends[] = {
	{ "; start_process with tty gives it one", "; exec with tty: true gives it one" },
	{ " (stdin: \"pipe\")", "; exec with interactive: true keeps it open" },
};

char *mcp_words_message(const json_t *error)
{
	const char *message = text(error, "message"), *begin = "", *end = "";
	size_t n;

	for (size_t i = 0; i < countof(parameters); i++)
		if (strncmp(message, parameters[i].theirs, strlen(parameters[i].theirs)) == 0) {
			begin = parameters[i].ours;
			message += strlen(parameters[i].theirs);
			break;
		}
	n = strlen(message);
	for (size_t i = 0; i < countof(ends); i++) {
		size_t len = strlen(ends[i].theirs);

		if (n < len || strcmp(message + n - len, ends[i].theirs) != 0)
			continue;
		end = ends[i].ours;
		n -= len;
		break;
	}
	return mem_printf("%s%.*s%s", begin, (int)n, message, end);
}

const char *mcp_words_advice(const json_t *error)
{
	static const struct {
		const char *says, *instead;
	} advices[] = {
		{ "list_methods", "Correct it and call again; the tool's schema says what it takes." },
		{ "the list methods", "ps with all: true lists the processes of this session." },
		{ "get_health", "Try again later." },
		{ "idempotencyKey", NULL },
		{ "a connection whose role", "A person has to do this." },
		{ "present status", "wait and ps tell how it stands." },
		{ "bailiff doctor", "Check the command, its cwd and the profile." },
	};
	const char *advice = text(json_object_get(error, "data"), "advice");

	for (size_t i = 0; i < countof(advices); i++)
		if (strstr(advice, advices[i].says))
			return advices[i].instead;
	return *advice ? advice : NULL;
}
