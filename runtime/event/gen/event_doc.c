/*
 * Prints the documents that are generated from the table of event types:
 *
 *   event_doc markdown          docs/events.md
 *   event_doc schema-public     docs/schemas/event.schema.json           the envelope
 *   event_doc schema-profile    docs/schemas/event-profile.schema.json   … with the ids each type must have
 *   event_doc schema-extended   docs/schemas/event-extended.schema.json  … with payloads and our own types: what
 *                               bailiffd writes
 *   event_doc fuzz-dict         a dictionary for libFuzzer
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/event/payload.h"

#include <stdio.h>
#include <string.h>

#define SCHEMA_BASE "https://bailiff.invalid/schemas/"
#define SCHEMA_VERSION "lime-profile-0.4.0"

enum schema { SCHEMA_PUBLIC, SCHEMA_PROFILE, SCHEMA_EXTENDED };

static const struct {
	const char *file;
	const char *title;
	const char *description;
} schemas[] = {
	[SCHEMA_PUBLIC] = { "event.schema.json", "bailiff event envelope", "The envelope that every event has." },
	[SCHEMA_PROFILE] = { "event-profile.schema.json", "bailiff event, strict profile",
			     "The envelope with the members and ids that each type must have." },
	[SCHEMA_EXTENDED] = { "event-extended.schema.json", "bailiff event as written",
			      "What bailiffd writes: the strict profile, the payload of each type, and types of "
			      "bailiff's own." },
};

/* Envelope members that are neither ids nor written out below. */
static const char *const string_members[] = { "nativeStatus", "status", "phase", "statusReason" };
static const char *const object_members[] = {
	"task",
	"taskAttempt",
	"taskRelationship",
	"taskGraph",
	"taskProgress",
	"taskAcceptance",
	"worker",
	"deliveryState",
	"refs",
	"permissionDecision",
	"sandboxProfile",
	"routingDecision",
	"candidateModelSet",
	"taskProfile",
	"limitState",
	"limitEvent",
	"costState",
	"hookRun",
	"executionEnvironment",
	"channel",
	"job",
	"jobItem",
	"output",
	"historyBoundary",
	"telemetry",
	"correlation",
};
static const struct {
	const char *name;
	const char *properties; /* JSON */
} shaped_members[] = {
	{ "benchmark",
	  "{\"datasetId\":{\"type\":\"string\"},\"datasetVersion\":{\"type\":\"string\"},\"datasetRef\":{\"type\":"
	  "\"string\"},"
	  "\"taskId\":{\"type\":\"string\"},\"trialId\":{\"type\":\"string\"},\"configurationId\":{\"type\":\"string\"}"
	  ","
	  "\"role\":{\"enum\":[\"baseline\",\"candidate\",\"control\"]},\"harborJobRef\":{\"type\":\"string\"},"
	  "\"harborTrialRef\":{\"type\":\"string\"},\"singleChangedVariable\":{\"type\":\"string\"}}" },
	{ "trajectory",
	  "{\"schema\":{\"type\":\"string\"},\"ref\":{\"type\":\"string\"},"
	  "\"exportStatus\":{\"enum\":[\"pending\",\"exported\",\"failed\",\"redacted\",\"not-supported\"]},"
	  "\"requiredFieldStatus\":{\"type\":\"object\"}}" },
	{ "reward",
	  "{\"value\":{\"type\":\"number\"},\"ref\":{\"type\":\"string\"},\"detailsRef\":{\"type\":\"string\"},"
	  "\"criteria\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"failureCategory\":{\"type\":\"string\"}"
	  "}" },
	{ "comparison",
	  "{\"meanRewardDelta\":{\"type\":\"number\"},\"timeoutRateDelta\":{\"type\":\"number\"},"
	  "\"evidenceCompletenessRate\":{\"type\":\"number\"},"
	  "\"p0QcGateRegressionCount\":{\"type\":\"integer\",\"minimum\":0},\"decision\":{\"type\":\"string\"}}" },
};

static void put_typed(struct jw *w, const char *key, const char *type)
{
	jw_kobj(w, key);
	jw_kstr(w, "type", type);
	jw_obj_end(w);
}

static void put_text(struct jw *w, const char *key, bool not_empty)
{
	jw_kobj(w, key);
	jw_kstr(w, "type", "string");
	if (not_empty)
		jw_kint(w, "minLength", 1);
	jw_obj_end(w);
}

static void put_type_member(struct jw *w, enum schema s)
{
	jw_kobj(w, "type");
	jw_kstr(w, "type", "string");
	jw_karr(w, "enum");
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (s == SCHEMA_EXTENDED || !event_info(t)->extension)
			jw_str(w, event_info(t)->name);
	jw_arr_end(w);
	jw_obj_end(w);
}

static void put_envelope_properties(struct jw *w, enum schema s)
{
	static const char any[] = "{\"type\":[\"object\",\"array\",\"string\",\"number\",\"boolean\",\"null\"]}";

	jw_kobj(w, "properties");
	put_type_member(w, s);
	put_text(w, "eventId", true);
	jw_kobj(w, "timestamp");
	jw_kstr(w, "type", "string");
	jw_kstr(w, "format", "date-time");
	jw_obj_end(w);
	put_text(w, "schemaVersion", false);
	put_text(w, "runtimeId", false);
	jw_kobj(w, "sequence");
	jw_kstr(w, "type", "integer");
	jw_kint(w, "minimum", 0);
	jw_obj_end(w);
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		put_text(w, id_field_member(f), f != ID_TRACE && f != ID_SPAN);
	for (size_t i = 0; i < countof(string_members); i++)
		put_text(w, string_members[i], false);
	for (size_t i = 0; i < countof(object_members); i++)
		put_typed(w, object_members[i], "object");
	for (size_t i = 0; i < countof(shaped_members); i++) {
		jw_kobj(w, shaped_members[i].name);
		jw_kstr(w, "type", "object");
		jw_kraw(w, "properties", shaped_members[i].properties, strlen(shaped_members[i].properties));
		jw_obj_end(w);
	}
	jw_kraw(w, "payload", any, sizeof(any) - 1);
	jw_obj_end(w);
}

static void put_envelope(struct jw *w, enum schema s)
{
	static const char *const required[] = { "type", "eventId", "timestamp" };

	jw_kstr(w, "type", "object");
	jw_kstrv(w, "required", required, countof(required));
	put_envelope_properties(w, s);
}

/* Members that the strict profile requires of every event. */
static void put_strict(struct jw *w)
{
	static const char *const required[] = {
		"type", "eventId", "timestamp", "schemaVersion", "runtimeId", "sessionId", "sequence", "payload",
	};

	jw_obj(w);
	jw_kstrv(w, "required", required, countof(required));
	jw_kobj(w, "properties");
	jw_kobj(w, "schemaVersion");
	jw_kstr(w, "const", SCHEMA_VERSION);
	jw_obj_end(w);
	put_text(w, "runtimeId", true);
	put_typed(w, "payload", "object");
	jw_obj_end(w);
	jw_obj_end(w);
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; *p; p += strcspn(p, " "), p += strspn(p, " "))
		if (strcspn(p, " ") == n && memcmp(p, word, n) == 0)
			return true;
	return false;
}

static bool type_needs(enum event_type t, const char *member)
{
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if ((event_info(t)->required_ids >> f & 1) && strcmp(id_field_member(f), member) == 0)
			return true;
	return has_word(event_info(t)->required_members, member);
}

/* If the type is one of those that need the member, it is required. */
static void put_condition(struct jw *w, enum schema s, const char *member)
{
	bool any = false;

	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		if (!type_needs(t, member) || (s != SCHEMA_EXTENDED && event_info(t)->extension))
			continue;
		if (!any) {
			jw_obj(w);
			jw_kobj(w, "if");
			jw_kobj(w, "properties");
			jw_kobj(w, "type");
			jw_karr(w, "enum");
			any = true;
		}
		jw_str(w, event_info(t)->name);
	}
	if (!any)
		return;
	jw_arr_end(w);
	jw_obj_end(w);
	jw_obj_end(w);
	jw_obj_end(w);
	jw_kobj(w, "then");
	jw_kstrv(w, "required", &member, 1);
	jw_obj_end(w);
	jw_obj_end(w);
}

static void put_conditions(struct jw *w, enum schema s)
{
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		put_condition(w, s, id_field_member(f));
	put_condition(w, s, "benchmark");
	put_condition(w, s, "comparison");
	put_condition(w, s, "refs");
}

static void put_payload_members(struct jw *w, const char *row)
{
	struct payload_member m;

	jw_karr(w, "required");
	for (const char *p = row; payload_member_next(&p, &m);)
		if (!m.optional)
			jw_strn(w, m.name, m.name_len);
	jw_arr_end(w);
	jw_kobj(w, "properties");
	for (const char *p = row; payload_member_next(&p, &m);) {
		mem_auto char *name = mem_strndup(m.name, m.name_len);
		mem_auto char *type = mem_strndup(m.type, m.type_len);

		if (strcmp(type, "any") == 0) {
			jw_kobj(w, name);
			jw_obj_end(w);
		} else {
			put_typed(w, name,
				  strcmp(type, "int") == 0    ? "integer"
				  : strcmp(type, "bool") == 0 ? "boolean"
							      : type);
		}
	}
	jw_obj_end(w);
}

static void put_payloads(struct jw *w)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const struct event_info *info = event_info(t);

		if (!*info->payload)
			continue;
		jw_obj(w);
		jw_kobj(w, "if");
		jw_kobj(w, "properties");
		jw_kobj(w, "type");
		jw_kstr(w, "const", info->name);
		jw_obj_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
		jw_kobj(w, "then");
		jw_kobj(w, "properties");
		jw_kobj(w, "payload");
		put_payload_members(w, info->payload);
		jw_obj_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
	}
}

/* One member or element per line, so that a changed row is a changed line; short containers stay on one line. */
static void print_indented(const char *p, const char *end)
{
	bool in_string = false;
	int depth = 0;
	const char *short_end = p; /* of the container that is being written on one line */

	for (; p < end; p++) {
		bool opens = !in_string && (*p == '{' || *p == '['), closes = !in_string && (*p == '}' || *p == ']');
		struct jval v = opens && p >= short_end ? jval_of(p, (size_t)(end - p)) : (struct jval){ 0 };

		if (v.len && v.len <= 80)
			short_end = p + v.len;
		if (closes && p >= short_end)
			printf("\n%*s", 2 * --depth, "");
		putchar(*p);
		if (opens && p >= short_end)
			printf("\n%*s", 2 * ++depth, "");
		else if (!in_string && *p == ',' && p < short_end)
			putchar(' ');
		else if (!in_string && *p == ',')
			printf("\n%*s", 2 * depth, "");
		else if (!in_string && *p == ':')
			putchar(' ');
		else if (in_string && *p == '\\')
			putchar(*++p);
		else if (*p == '"')
			in_string = !in_string;
	}
	putchar('\n');
}

static void print_schema(enum schema s)
{
	buf_auto struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);
	mem_auto char *id = mem_printf("%s%s", SCHEMA_BASE, schemas[s].file);

	jw_obj(&w);
	jw_kstr(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
	jw_kstr(&w, "$id", id);
	jw_kstr(&w, "title", schemas[s].title);
	jw_kstr(&w, "description", schemas[s].description);
	if (s == SCHEMA_PROFILE)
		jw_kstr(&w, "$ref", schemas[SCHEMA_PUBLIC].file);
	else
		put_envelope(&w, s);
	if (s != SCHEMA_PUBLIC) {
		jw_karr(&w, "allOf");
		put_strict(&w);
		put_conditions(&w, s);
		if (s == SCHEMA_EXTENDED)
			put_payloads(&w);
		jw_arr_end(&w);
	}
	jw_obj_end(&w);
	print_indented(json.data, json.data + json.len);
}

static void print_row(const struct event_info *info)
{
	static const char *const writers[] = {
		[EVENT_BY_RUNTIME] = "runtime",
		[EVENT_BY_CLIENT] = "client",
		[EVENT_BY_OWNER] = "owner",
	};
	const char *sep = "";
	struct payload_member m;

	printf("| `%s`%s | ", info->name, info->extension ? " (own)" : "");
	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (info->required_ids >> f & 1) {
			printf("%s%s", sep, id_field_member(f));
			sep = ", ";
		}
	}
	for (const char *p = info->required_members; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
		printf("%s%.*s", sep, (int)strcspn(p, " "), p);
		sep = ", ";
	}
	printf(" | ");
	sep = "";
	for (const char *p = info->payload; payload_member_next(&p, &m); sep = ", ")
		printf("%s%.*s%s: %.*s", sep, (int)m.name_len, m.name, m.optional ? "?" : "", (int)m.type_len, m.type);
	printf(" | %s | %s | %s |\n", info->class == EVENT_NOW ? "now" : "soon", writers[info->origin], info->cause);
}

static bool same_family(const char *a, const char *b)
{
	size_t n = strcspn(a, ".");

	return strcspn(b, ".") == n && memcmp(a, b, n) == 0;
}

/* True if no earlier row has the type's first word. */
static bool first_of_family(enum event_type t)
{
	for (int u = 0; u < (int)t; u++)
		if (same_family(event_info(t)->name, event_info(u)->name))
			return false;
	return true;
}

static void print_markdown(void)
{
	puts("# Events\n\n"
	     "Generated by `make docs` from `runtime/event/event_types.def`; change it there.\n\n"
	     "Every event has `type`, `eventId`, `timestamp`, `schemaVersion`, `runtimeId`, `sessionId`, `sequence` "
	     "and `payload`.\n"
	     "Members that are absent are left out, never null. `docs/schemas` has the same as JSON schemas."
	     "\n\n"
	     "- **needs**: further envelope members that an event of the type always has. Others appear where they are "
	     "known.\n"
	     "- **payload**: members with their types; those with `?` may be absent, and there may be more.\n"
	     "- **commit**: *now* is durable before anything that follows from it is shown; *soon* is durable within "
	     "50 ms.\n"
	     "- **writer**: *runtime* alone; a *client* through `emit_events`; the *owner* of the call, child or item "
	     "by its report.\n"
	     "- *(own)*: bailiff's own type, in addition to a standard one; only the extended schema has it.");
	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const char *name = event_info(t)->name;

		if (!first_of_family(t))
			continue;
		printf("\n## %.*s\n\n", (int)strcspn(name, "."), name);
		puts("| type | needs | payload | commit | writer | cause |\n|---|---|---|---|---|---|");
		for (int u = t; u < EVENT_TYPE_COUNT; u++)
			if (same_family(name, event_info(u)->name))
				print_row(event_info(u));
	}
}

static void print_dictionary(void)
{
	static const char *const envelope[] = { "type",      "eventId",  "timestamp", "schemaVersion",
						"runtimeId", "sequence", "payload" };

	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		printf("\"\\\"%s\\\"\"\n", event_info(t)->name);
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		printf("\"\\\"%s\\\":\"\n", id_field_member(f));
	for (size_t i = 0; i < countof(envelope); i++)
		printf("\"\\\"%s\\\":\"\n", envelope[i]);
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (strcmp(what, "markdown") == 0)
		print_markdown();
	else if (strcmp(what, "schema-public") == 0)
		print_schema(SCHEMA_PUBLIC);
	else if (strcmp(what, "schema-profile") == 0)
		print_schema(SCHEMA_PROFILE);
	else if (strcmp(what, "schema-extended") == 0)
		print_schema(SCHEMA_EXTENDED);
	else if (strcmp(what, "fuzz-dict") == 0)
		print_dictionary();
	else {
		fprintf(stderr, "usage: event_doc markdown|schema-public|schema-profile|schema-extended|fuzz-dict\n");
		return 2;
	}
	return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
