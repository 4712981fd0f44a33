#include "supervisor/gateway/mcp/mcp_report.h"

#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "sandbox/violation_text.h"
#include "supervisor/client/autorun_text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_reply.h"

#include <inttypes.h>
#include <string.h>

#define DENIALS_MAX 10

bool mcp_report_has_ended(const json_t *process)
{
	return !json_text_is(process, "status", "running") && !json_text_is(process, "status", "waiting_permission") &&
	       !json_text_is(process, "status", "starting");
}

/* How a command ended that has left processes running; NULL: the process has ended with it, or the command runs. */
static const json_t *early_end(const json_t *process)
{
	const json_t *end = json_object_get(process, "commandExited");

	return !mcp_report_has_ended(process) && json_is_object(end) ? end : NULL;
}

void mcp_report_uri(const char *process_id, const char *stream, struct buf *out)
{
	buf_printf(out, "bailiff://output/%s/%s", process_id, stream);
}

/* ---- status ---- */

/* The daemon's status, except that a denial by a person or policy is reported as "denied". */
static const char *status_of(const json_t *p)
{
	return json_text_is(p, "status", "failed") && json_text_is(p, "category", "permission") ? "denied"
	       : early_end(p)                                                                   ? "completed"
			      : json_get_text(p, "status");
}

static bool has_failed(const struct mcp_report *r)
{
	const json_t *p = r->process, *early = early_end(p), *end = early ? early : p;

	if (!mcp_report_has_ended(p) && !early)
		return false;
	if (json_text_is(p, "status", "terminated"))
		return !r->ended_is_fine;
	return strcmp(status_of(p), "completed") != 0 || json_get_text(end, "signal")[0] ||
	       json_integer_value(json_object_get(end, "exitCode")) != 0;
}

static void write_duration(const json_t *p, struct buf *out)
{
	const json_t *ms = json_object_get(p, "durationMs");

	if (ms)
		buf_printf(out, " after %.*f s", json_integer_value(ms) < 10000 ? 2 : 0,
			   (double)json_integer_value(ms) / 1000);
}

static void write_end(const json_t *p, struct buf *out)
{
	const char *message = json_get_text(p, "message")[0] ? json_get_text(p, "message")
							     : json_get_text(p, "statusReason");

	if (strcmp(status_of(p), "denied") == 0) {
		buf_printf(out, "Not run: %s", message[0] ? message : "permission was denied");
	} else if (json_text_is(p, "status", "failed") && json_get_text(p, "limit")[0]) {
		buf_printf(out, "Stopped by its %s limit", json_get_text(p, "limit"));
		write_duration(p, out);
		buf_printf(out, "%s%s", message[0] ? ": " : "", message);
	} else if (json_text_is(p, "status", "failed")) {
		buf_printf(out, "Failed: %s", message);
	} else if (json_text_is(p, "status", "lost")) {
		buf_str(out, "Lost: it ended while the supervisor was not running; its exit status is unknown");
	} else if (json_text_is(p, "status", "terminated")) {
		buf_printf(out, "Terminated (%s)", message[0] ? message : "requested");
		write_duration(p, out);
	} else if (json_get_text(p, "signal")[0]) {
		buf_printf(out, "Killed by signal %s", json_get_text(p, "signal"));
		write_duration(p, out);
	} else {
		buf_printf(out, "Exit code %d", (int)json_integer_value(json_object_get(p, "exitCode")));
		write_duration(p, out);
	}
	buf_str(out, ".\n");
}

/* "node (pid 12), sh (pid 13) and 4 more" */
static void write_left(const json_t *end, struct buf *out)
{
	const json_t *running = json_object_get(end, "running"), *v;
	json_int_t count = json_integer_value(json_object_get(end, "runningCount"));
	size_t i, n = json_array_size(running);

	json_array_foreach (running, i, v)
		buf_printf(out, "%s%s (pid %d)", i ? ", " : "", json_get_text(v, "name"),
			   (int)json_integer_value(json_object_get(v, "pid")));
	if (!n)
		buf_str(out, "processes");
	else if (count > (json_int_t)n)
		buf_printf(out, " and %d more", (int)count - (int)n);
}

static bool is_truncated(const struct mcp_report *r)
{
	for (size_t i = 0; i < r->nstreams; i++)
		if (excerpt_omitted(&r->streams[i]))
			return true;
	return false;
}

/* How to continue; "" if there is nothing to continue with. */
static void write_next(const struct mcp_report *r, struct buf *out)
{
	const json_t *p = r->process;
	const char *id = json_get_text(p, "processId"), *input = json_get_text(p, "stdin");

	if (json_text_is(p, "status", "waiting_permission")) {
		buf_printf(out,
			   "A person has to allow it (bailiff approve %s). Call wait with {\"actionId\":\"%s\"} to "
			   "wait for that.",
			   json_get_text(p, "actionId"), json_get_text(p, "actionId"));
	} else if (early_end(p)) {
		buf_printf(out, "It left running: ");
		write_left(early_end(p), out);
		buf_printf(out,
			   ". Later commands can use them. With {\"processId\":\"%s\"}, read_output reads what they "
			   "print and kill ends them; otherwise they end with the session.",
			   id);
	} else if (!mcp_report_has_ended(p)) {
		buf_printf(
			out,
			"Continue with {\"processId\":\"%s\"}: wait for it, read_output for more of what it printed, "
			"%s%skill to end it.",
			id, strcmp(input, "none") == 0 ? "" : "write_stdin to type, ",
			strcmp(input, "tty") == 0 ? "screen to see its terminal, " : "");
	} else if (json_text_is(p, "limit", "wall")) {
		buf_str(out, "To give it more, call exec with a larger timeoutMs.");
	} else if (json_get_flag(p, "cow") && r->changes == 0) {
		buf_str(out, "It changed no files: there is nothing to apply or discard.");
	} else if (json_get_flag(p, "cow") && json_text_is(p, "status", "completed")) {
		buf_printf(out,
			   "What it changed is held back. Call changes with {\"processId\":\"%s\"} to review it, then "
			   "with action apply or discard.",
			   id);
	} else if (is_truncated(r)) {
		buf_printf(
			out,
			"Not all of its output is shown; read_output with {\"processId\":\"%s\"} reads any part of it.",
			id);
	}
}

static void write_status(const struct mcp_report *r, const char *next, struct buf *out)
{
	const json_t *p = r->process;

	if (r->note)
		buf_printf(out, "%s\n", r->note);
	if (json_text_is(p, "status", "waiting_permission"))
		buf_printf(out, "Not started yet: it waits for permission (action %s).\n",
			   json_get_text(p, "actionId"));
	else if (early_end(p))
		write_end(early_end(p), out);
	else if (!mcp_report_has_ended(p))
		buf_printf(out, "Still running as %s.\n", json_get_text(p, "processId"));
	else
		write_end(p, out);
	if (*next)
		buf_printf(out, "%s\n", next);
}

/* ---- denials ---- */

static json_t *text_or(const char *given, const char *otherwise)
{
	json_t *word = given && *given ? json_string(given) : NULL;

	return json_pack("[o]",
			 word ? word : json_string(otherwise)); /* text that is not UTF-8 cannot be represented */
}

/* An agent cannot get more than its profile allows, so this advice is for the person who writes profiles. */
static void write_needs(const struct violation_needs *n, const char *profile, struct buf *out)
{
	buf_auto struct buf host = BUF_INIT;
	json_auto_t *wider = json_object();
	const char *person = violation_needs_person(n);

	if (person)
		buf_printf(out, "%s. ", person);
	if (n->session)
		buf_str(out, "start everything that uses the same /tmp or localhost in one command, or in one session "
			     "sandbox (bailiff sandbox create, then bailiff run --in SANDBOX). ");
	if (n->closed)
		buf_str(out, "a person has to close the other sandbox (bailiff sandbox list), or to create the path "
			     "outside of sandboxes after removing the empty file or folder there. ");
	violation_needs_host(n, &host);
	if (n->write)
		json_object_set_new(wider, "writeRoots", text_or(n->folder[0] == '/' ? n->folder : "", "PATH"));
	if (n->read)
		json_object_set_new(wider, "readRoots", text_or(n->file, "PATH"));
	if (host.len || n->network)
		json_object_set_new(wider, "network",
				    json_pack("{so}", "allow", text_or(buf_cstr(&host), "HOST:PORT")));
	if (!json_object_size(wider))
		return;
	json_object_set_new(wider, "extends", json_string(profile));
	json_auto_t *policy = json_pack("{s{sO}}", "profiles", profile, wider);
	mem_auto char *text = json_dumps(policy, JSON_COMPACT);
	buf_printf(out,
		   "a person has to widen the profile, in policy.json: %s. An agent cannot; if it is needed, ask them.",
		   text);
}

static bool has_text(const json_t *array, const char *key, const char *text)
{
	const json_t *v;
	size_t i;

	json_array_foreach (array, i, v)
		if (json_text_is(v, key, text))
			return true;
	return false;
}

/*
 * Whether the output reports that a name was not resolved, or that git could not write. A command that succeeds may
 * have looked up names that nothing depended on (for updates, for statistics); but in `npm install | tail` only the
 * pipe succeeds.
 */
static bool reports_optional(const struct mcp_report *r)
{
	static const char *const says[] = { "resolve host",    "resolving host",
					    "name resolution", "name or service not known",
					    "getaddrinfo",     "EAI_AGAIN",
					    "ENOTFOUND",       "index.lock" };

	for (size_t i = 0; i < r->nstreams; i++)
		for (size_t k = 0; k < countof(says); k++)
			if (strcasestr(buf_cstr(&r->streams[i].first), says[k]) ||
			    strcasestr(buf_cstr(&r->streams[i].last), says[k]))
				return true;
	return false;
}

/* An array of {what, confidence} without duplicates, and what would allow them. */
static json_t *denials_of(const struct mcp_report *r, bool succeeded, struct buf *ret_allow)
{
	const json_t *violations = json_object_get(r->process, "violations");
	const char *profile = json_get_text(r->process, "sandboxProfile");
	const bool with_optional = !succeeded || reports_optional(r);
	struct violation_needs needs = { 0 };
	json_t *found = json_array();
	const json_t *v;
	size_t i;

	json_array_foreach (violations, i, v) {
		mem_auto char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		struct jval violation = jval_of(text, strlen(text));
		buf_auto struct buf words = BUF_INIT;

		if (!with_optional && violation_text_is_optional(violation))
			continue;
		violation_text_describe(violation, &words);
		violation_needs_add(&needs, violation);
		if (json_array_size(found) < DENIALS_MAX && !has_text(found, "what", buf_cstr(&words)))
			json_array_append_new(
				found, json_pack("{so ss}", "what", rpc_message_text(buf_cstr(&words), words.len),
						 "confidence", violation_text_is_hint(violation) ? "hint" : "exact"));
	}
	write_needs(&needs, *profile ? profile : "workspace", ret_allow);
	return found;
}

static void write_denials(const json_t *denials, size_t all, const char *allow, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach (denials, i, v)
		buf_printf(out,
			   json_text_is(v, "confidence", "hint") ? "probably denied (guessed from the output): %s\n"
								 : "denied: %s\n",
			   json_get_text(v, "what"));
	if (all > json_array_size(denials) && json_array_size(denials) == DENIALS_MAX)
		buf_printf(out, "denied: more of the same kind\n");
	if (*allow)
		buf_printf(out, "to allow it: %s\n", allow);
}

/*
 * Seeing the kernel's denials requires root and audit. Without them, guess from the messages that programs print; the
 * result is marked as a guess.
 */
#define NO_PRIVILEGES "perhaps the sandbox: no program gets privileges in it, with sudo or otherwise."
#define OWN_LOOPBACK                                                                                                 \
	"perhaps the sandbox: it has a localhost of its own. Start the server in it, with background; for a server " \
	"of "                                                                                                        \
	"the host, a person has to allow localhost:PORT in the profile."
#define NO_NETWORK "perhaps the sandbox: there is no network. For some, a person has to widen the profile."
static const struct {
	const char *says, *hint;
} guesses[] = {
	{ "Read-only file system", "perhaps the sandbox: only the working tree and /tmp can be written. For more, a "
				   "person has to widen the profile." },
	{ "Network is unreachable", NO_NETWORK },
	{ "Could not resolve host", NO_NETWORK },
	{ "could not write config file .git/config", "perhaps the sandbox: .git/config and .git/hooks are protected." },
	{ "Temporary failure in name resolution", NO_NETWORK },
	{ "no new privileges", NO_PRIVILEGES },
	{ "must be superuser", NO_PRIVILEGES },
	{ "are you root", NO_PRIVILEGES },
	{ "Docker daemon", "perhaps the sandbox: the socket of Docker is not in it, because it makes its users root." },
	{ "Connection refused", OWN_LOOPBACK },
	{ "Failed to connect to localhost", OWN_LOOPBACK },
	{ "No such process", "perhaps the sandbox: only its own processes exist in it." },
};

/* Paths in messages, and why they do not exist in the sandbox. */
static const struct {
	const char *below, *hint;
} unseen[] = {
	{ "/home/",
	  "perhaps the sandbox: home folders are hidden, except for toolchains. For more, a person has to widen "
	  "the profile." },
	{ "/root/",
	  "perhaps the sandbox: home folders are hidden, except for toolchains. For more, a person has to widen "
	  "the profile." },
};

/* Searches for a line that reports something missing and names one of these paths. */
static const char *guess_unseen(const struct buf *text)
{
	static const char *const says[] = { "No such file or directory", "no such file or directory",
					    "Permission denied", "ENOENT" };
	const char *p = buf_cstr(text), *end = p + text->len;

	for (const char *nl; p < end; p = nl + 1) {
		bool missing = false;

		nl = memchr(p, '\n', (size_t)(end - p));
		if (!nl)
			nl = end;
		for (size_t i = 0; i < countof(says); i++)
			missing |= memmem(p, (size_t)(nl - p), says[i], strlen(says[i])) != NULL;
		for (size_t i = 0; missing && i < countof(unseen); i++)
			if (memmem(p, (size_t)(nl - p), unseen[i].below, strlen(unseen[i].below)))
				return unseen[i].hint;
	}
	return NULL;
}

static const char *guess_reason(const struct mcp_report *r)
{
	for (size_t i = 0; i < r->nstreams; i++) {
		const struct excerpt *x = &r->streams[i];

		for (size_t k = 0; k < countof(guesses); k++)
			if (memmem(buf_cstr(&x->first), x->first.len, guesses[k].says, strlen(guesses[k].says)) ||
			    memmem(buf_cstr(&x->last), x->last.len, guesses[k].says, strlen(guesses[k].says)))
				return guesses[k].hint;
		const char *hint = guess_unseen(&x->first);
		if (!hint)
			hint = guess_unseen(&x->last);
		if (hint)
			return hint;
	}
	return NULL;
}

/* ---- autorun files ---- */

static void write_autorun(const json_t *autorun, struct buf *text, json_t *structured)
{
	buf_auto struct buf words = BUF_INIT;
	mem_auto char *json = autorun ? json_dumps(autorun, JSON_COMPACT) : NULL;

	if (!json)
		return;
	bool changed = autorun_describe(jval_of(json, strlen(json)), &words);
	if (changed)
		buf_str(&words, "Tell the user to check them before using those programs there.\n");
	buf_append(text, words.data, words.len);
	if (words.len)
		json_object_set_new(structured, "warning", rpc_message_text(words.data, words.len));
}

/* ---- output ---- */

static bool has_output(const struct excerpt *x) { return excerpt_end(x) > x->from; }

static void write_stream(const struct excerpt *x, const char *text, bool only, struct buf *out)
{
	if (!has_output(x))
		return;
	if (out->len)
		buf_byte(out, '\n');
	if (x->from || excerpt_omitted(x))
		buf_printf(out, "%s, bytes %" PRIu64 " to %" PRIu64 ":\n", x->stream, x->from, excerpt_end(x));
	else if (!only || strcmp(x->stream, "stderr") == 0)
		buf_printf(out, "%s:\n", x->stream);
	buf_str(out, text);
	if (out->len && out->data[out->len - 1] != '\n') /* output of control sequences only has no visible text */
		buf_byte(out, '\n');
}

static size_t streams_with_text(const struct mcp_report *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->nstreams; i++)
		n += has_output(&r->streams[i]);
	return n;
}

/* By its first bytes, without a character that they cut. */
static bool is_binary(const struct excerpt *x)
{
	return x->first.len && (memchr(x->first.data, 0, x->first.len) ||
				!text_utf8_valid(x->first.data, text_utf8_cut(x->first.data, x->first.len)));
}

static json_t *link_to(const char *process_id, const struct excerpt *x)
{
	buf_auto struct buf uri = BUF_INIT;

	mcp_report_uri(process_id, x->stream, &uri);
	return json_pack("{ss ss ss ss sI}", "type", "resource_link", "uri", buf_cstr(&uri), "name", x->stream,
			 "mimeType", is_binary(x) ? "application/octet-stream" : "text/plain", "size",
			 (json_int_t)x->total);
}

static void add_streams(const struct mcp_report *r, struct buf *text, json_t *content, json_t *structured)
{
	const char *id = json_get_text(r->process, "processId");
	json_t *outputs = json_array();

	for (size_t i = 0; i < r->nstreams; i++) {
		struct excerpt *x = &r->streams[i];
		buf_auto struct buf shown = BUF_INIT, uri = BUF_INIT;

		excerpt_text(x, &shown);
		write_stream(x, buf_cstr(&shown), streams_with_text(r) == 1, text);
		mcp_report_uri(id, x->stream, &uri);
		json_object_set_new(structured, x->stream, rpc_message_text(buf_cstr(&shown), shown.len));
		json_array_append_new(outputs, json_pack("{ss ss sI sI sI}", "stream", x->stream, "uri", buf_cstr(&uri),
							 "bytes", (json_int_t)x->total, "from", (json_int_t)x->from,
							 "omittedBytes", (json_int_t)excerpt_omitted(x)));
		if (excerpt_omitted(x))
			json_array_append_new(content, link_to(id, x));
	}
	json_object_set_new(structured, "outputs", outputs);
}

/* ---- the whole report ---- */

static void copy_members(json_t *to, const json_t *from, const char *key)
{
	json_t *v = json_object_get(from, key);

	if (v && !json_is_null(v) && !(json_is_string(v) && json_string_length(v) == 0))
		json_object_set(to, key, v);
}

static json_t *structured_of(const struct mcp_report *r, const char *next, const json_t *denials, const char *allow)
{
	static const char *const same[] = { "processId", "exitCode", "signal", "durationMs", "limit", "actionId" };
	json_t *s = json_pack("{ss}", "status", status_of(r->process));

	for (size_t i = 0; i < countof(same); i++)
		copy_members(s, r->process, same[i]);
	if (early_end(r->process)) {
		static const char *const ended[] = { "exitCode", "signal", "durationMs", "running" };

		for (size_t i = 0; i < countof(ended); i++)
			copy_members(s, early_end(r->process), ended[i]);
	}
	if (!json_text_is(s, "status", "waiting_permission"))
		json_object_del(s, "actionId");
	if (mcp_report_has_ended(r->process) && !json_text_is(r->process, "status", "completed"))
		copy_members(s, r->process, json_get_text(r->process, "message")[0] ? "message" : "statusReason");
	if (json_object_get(s, "statusReason")) {
		json_object_set(s, "message", json_object_get(s, "statusReason"));
		json_object_del(s, "statusReason");
	}
	if (r->note)
		json_object_set_new(s, "note", json_string(r->note));
	if (json_array_size(denials))
		json_object_set(s, "denials", (json_t *)denials);
	if (*allow)
		json_object_set_new(s, "toAllow", json_string(allow));
	if (*next)
		json_object_set_new(s, "next", json_string(next));
	return s;
}

static json_t *result_of(const struct buf *text, json_t *content, json_t *structured, bool wrong)
{
	json_array_insert_new(
		content, 0, json_pack("{ss so}", "type", "text", "text", rpc_message_text(buf_cstr(text), text->len)));
	return json_pack("{so so sb}", "content", content, "structuredContent", structured, "isError", wrong);
}

json_t *mcp_report_result(const struct mcp_report *r)
{
	const json_t *violations = json_object_get(r->process, "violations");
	buf_auto struct buf text = BUF_INIT, allow = BUF_INIT, next = BUF_INIT;
	json_auto_t *denials = denials_of(r, strcmp(status_of(r->process), "completed") == 0 && !has_failed(r), &allow);
	json_t *content = json_array(), *structured;

	write_next(r, &next);
	bool plain = json_text_is(r->process, "status", "completed") && !has_failed(r) && !r->note &&
		     !*buf_cstr(&next) && !json_array_size(denials);
	if (!plain)
		write_status(r, buf_cstr(&next), &text);
	write_denials(denials, json_array_size(violations), buf_cstr(&allow), &text);
	structured = structured_of(r, buf_cstr(&next), denials, buf_cstr(&allow));
	const char *hint = has_failed(r) && !json_array_size(denials) && !r->note ? guess_reason(r) : NULL;
	if (hint) {
		buf_printf(&text, "%s\n", hint);
		json_object_set_new(structured, "hint", json_string(hint));
	}
	write_autorun(json_object_get(r->process, "autorun"), &text, structured);
	add_streams(r, &text, content, structured);
	if (plain) {
		buf_str(&text, text.len ? "\n" : "");
		write_end(r->process, &text);
	}
	return result_of(&text, content, structured, has_failed(r));
}

/* ---- processes that were not started ---- */

static void write_rules(const json_t *decision, struct buf *out)
{
	const json_t *v;
	size_t i;

	json_array_foreach (json_object_get(decision, "ruleRefs"), i, v) {
		bool session = json_get_text(v, "sessionId")[0];

		buf_printf(out, "rule: %s (%s, %s:%d)\n", json_get_text(v, "rule"), json_get_text(v, "effect"),
			   json_get_text(v, session ? "sessionId" : "file"),
			   (int)json_integer_value(json_object_get(v, session ? "number" : "line")));
	}
	if (json_get_text(decision, "impact")[0])
		buf_printf(out, "it %s\n", json_get_text(decision, "impact"));
	if (json_get_text(decision, "rollbackAdvice")[0])
		buf_printf(out, "instead: %s\n", json_get_text(decision, "rollbackAdvice"));
}

json_t *mcp_report_denied(const json_t *error)
{
	const json_t *data = json_object_get(error, "data"), *decision = json_object_get(data, "permissionDecision");
	bool denied = json_integer_value(json_object_get(error, "code")) == -32010;
	mem_auto char *message = mcp_reply_error_text(error);
	const char *advice = mcp_reply_advice(error);
	buf_auto struct buf text = BUF_INIT;
	json_t *s = json_pack("{ss ss}", "status", denied ? "denied" : "failed", "message", message);

	copy_members(s, data, "processId");
	buf_printf(&text, "%s: %s.\n", denied ? "Denied by policy" : "Not started",
		   decision ? json_get_text(decision, "decisionReason") : message);
	if (decision) {
		buf_auto struct buf what = BUF_INIT;

		const char *allow =
			json_array_size(json_object_get(decision, "ruleRefs"))
				? "a person has to change that rule of the policy; do not try to get around it."
				: "a person has to change the policy or the profile; do not try to get around it.";

		write_rules(decision, &text);
		buf_printf(&text, "to allow it: %s\n", allow);
		json_object_set_new(s, "toAllow", json_string(allow));
		buf_str(&what, json_get_text(decision, "decisionReason"));
		json_object_set_new(s, "denials",
				    json_pack("[{so sO*}]", "what", rpc_message_text(buf_cstr(&what), what.len),
					      "rules", json_object_get(decision, "ruleRefs")));
	} else if (advice) {
		buf_printf(&text, "%s\n", advice);
		json_object_set_new(s, "next", json_string(advice));
	}
	return result_of(&text, json_array(), s, true);
}
