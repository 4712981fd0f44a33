/*
 * Two recursive walks: check_value applies a schema to a value, verify_schema checks the schema itself. Both count
 * their depth, since schemas come from outside, and both carry the path to the current value, which becomes the
 * error's field. A keyword with a malformed argument is ignored by the first walk; the second one reports it to the
 * author.
 */

#include "runtime/base/json_schema.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Where in the document, for the field of an error. */
struct json_path {
	char path[ERR_FIELD_MAX];
	int depth;
	struct err *e;
};

static int check_value(const json_t *schema, const json_t *value, const struct json_path *at);

static struct json_path path_below(const struct json_path *at, const char *key, size_t index)
{
	struct json_path p = { .depth = at->depth + 1, .e = at->e };

	if (key)
		snprintf(p.path, sizeof(p.path), "%.30s%s%.30s", at->path, at->path[0] ? "." : "", key);
	else
		snprintf(p.path, sizeof(p.path), "%.40s[%zu]", at->path, index);
	return p;
}

#define wrong(at, ...) err_field((at)->e, (at)->path, __VA_ARGS__)

static bool is_type(const char *type, const json_t *v)
{
	static const struct {
		const char *name;
		json_type type;
	} types[] = { { "object", JSON_OBJECT },
		      { "array", JSON_ARRAY },
		      { "string", JSON_STRING },
		      { "integer", JSON_INTEGER },
		      { "null", JSON_NULL } };

	if (strcmp(type, "boolean") == 0)
		return json_is_boolean(v);
	if (strcmp(type, "number") == 0)
		return json_is_number(v);
	if (strcmp(type, "integer") == 0 && json_is_real(v)) /* 3.0 is one to JSON schema */
		return json_real_value(v) > -9e15 && json_real_value(v) < 9e15 &&
		       json_real_value(v) == (double)(long long)json_real_value(v);
	for (size_t i = 0; i < countof(types); i++)
		if (strcmp(types[i].name, type) == 0)
			return json_typeof(v) == types[i].type;
	return false;
}

/* "type" may be one name or a list of them. */
static int check_type(const json_t *type, const json_t *value, const struct json_path *at)
{
	const json_t *one;
	size_t i;

	if (json_is_string(type))
		return is_type(json_string_value(type), value) ? 0 : wrong(at, "expected %s", json_string_value(type));
	json_array_foreach (type, i, one)
		if (json_is_string(one) && is_type(json_string_value(one), value))
			return 0;
	return json_is_array(type) ? wrong(at, "has a type that is not allowed here") : 0;
}

/* The error lists the words, as far as they fit. */
static int check_enum(const json_t *words, const json_t *value, const struct json_path *at)
{
	char list[200] = "";
	const json_t *one;
	size_t i, len = 0;

	if (!json_is_array(words))
		return 0;
	json_array_foreach (words, i, one) {
		if (json_equal(one, value))
			return 0;
		if (json_is_string(one) && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.40s", i ? ", " : "",
						json_string_value(one));
	}
	return wrong(at, "expected one of %s", list);
}

/* All numbers are compared as doubles, so bounds beyond 2^53 are not exact. */
static int check_range(const json_t *schema, const json_t *value, const struct json_path *at)
{
	const json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");
	const json_t *above = json_object_get(schema, "exclusiveMinimum"),
		     *below_it = json_object_get(schema, "exclusiveMaximum");
	double v = json_number_value(value);

	if (json_is_number(least) && v < json_number_value(least))
		return wrong(at, "must be at least %.15g", json_number_value(least));
	if (json_is_number(most) && v > json_number_value(most))
		return wrong(at, "must be at most %.15g", json_number_value(most));
	if (json_is_number(above) && v <= json_number_value(above))
		return wrong(at, "must be more than %.15g", json_number_value(above));
	if (json_is_number(below_it) && v >= json_number_value(below_it))
		return wrong(at, "must be less than %.15g", json_number_value(below_it));
	return 0;
}

static size_t count_characters(const json_t *text)
{
	const char *s = json_string_value(text);
	size_t n = 0;

	for (size_t i = 0; i < json_string_length(text); i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80; /* jansson lets only UTF-8 in */
	return n;
}

static int check_count(const json_t *schema, const char *least_key, const char *most_key, size_t n, const char *of,
		       const struct json_path *at)
{
	const json_t *least = json_object_get(schema, least_key), *most = json_object_get(schema, most_key);

	if (json_is_integer(least) && (json_int_t)n < json_integer_value(least))
		return json_integer_value(least) == 1
			       ? wrong(at, "must not be empty")
			       : wrong(at, "must have at least %lld %s", (long long)json_integer_value(least), of);
	if (json_is_integer(most) && (json_int_t)n > json_integer_value(most))
		return wrong(at, "must have at most %lld %s", (long long)json_integer_value(most), of);
	return 0;
}

/* Lists the known names, as far as they fit, because the usual cause is a misspelt one. */
static int reject_unknown(const json_t *properties, const struct json_path *at)
{
	char list[ERR_MESSAGE_MAX] = "";
	size_t len = 0;
	const json_t *v;
	const char *name;

	json_object_foreach ((json_t *)properties, name, v)
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.40s", len ? ", " : "", name);
	return *list ? wrong(at, "unknown member; the known ones are %s", list) : wrong(at, "unknown member");
}

/* Required members first: a missing one is the likelier mistake. */
static int check_object(const json_t *schema, const json_t *value, const struct json_path *at)
{
	const json_t *properties = json_object_get(schema, "properties"),
		     *required = json_object_get(schema, "required"), *member;
	const json_t *others = json_object_get(schema, "additionalProperties");
	const char *key;
	size_t i;

	json_array_foreach (required, i, member)
		if (json_is_string(member) && !json_object_get(value, json_string_value(member))) {
			struct json_path p = path_below(at, json_string_value(member), 0);
			return wrong(&p, "is required");
		}
	json_object_foreach ((json_t *)value, key, member) {
		const json_t *sub = json_object_get(properties, key);
		struct json_path p = path_below(at, key, 0);

		if (!sub && json_is_false(others))
			return reject_unknown(properties, &p);
		if (!sub)
			sub = others;
		if (sub && check_value(sub, member, &p) < 0)
			return -1;
	}
	return 0;
}

static int check_array(const json_t *schema, const json_t *value, const struct json_path *at)
{
	const json_t *items = json_object_get(schema, "items"), *one;
	size_t i;

	if (check_count(schema, "minItems", "maxItems", json_array_size(value), "elements", at) < 0)
		return -1;
	json_array_foreach (value, i, one) {
		struct json_path p = path_below(at, NULL, i);
		if (items && !json_is_array(items) && check_value(items, one, &p) < 0)
			return -1;
	}
	return 0;
}

/* How many of these schemas the value satisfies. */
static size_t count_matches(const json_t *of, const json_t *value, const struct json_path *at)
{
	const json_t *one;
	size_t i, n = 0;

	json_array_foreach (of, i, one) {
		struct err ignored = ERR_INIT;
		struct json_path p = *at;

		p.e = &ignored;
		p.depth++;
		n += check_value(one, value, &p) == 0;
	}
	return n;
}

/* anyOf and oneOf report no detail, since every alternative has its own reason. */
static int check_combined(const json_t *schema, const json_t *value, const struct json_path *at)
{
	const json_t *any = json_object_get(schema, "anyOf"), *one = json_object_get(schema, "oneOf"),
		     *all = json_object_get(schema, "allOf");
	const json_t *not_this = json_object_get(schema, "not"), *sub;
	struct json_path p = *at;
	size_t i;

	p.depth++;
	if (json_is_array(any) && count_matches(any, value, at) == 0)
		return wrong(at, "matches none of the allowed forms");
	if (json_is_array(one)) {
		size_t n = count_matches(one, value, at);

		if (n != 1)
			return n ? wrong(at, "matches more than one of the forms; exactly one is allowed")
				 : wrong(at, "matches none of the allowed forms");
	}
	json_array_foreach (all, i, sub)
		if (check_value(sub, value, &p) < 0)
			return -1;
	if (not_this) {
		struct err ignored = ERR_INIT;

		p.e = &ignored;
		if (check_value(not_this, value, &p) == 0)
			return wrong(at, "matches a form that is not allowed");
	}
	return 0;
}

/* Keywords of other types do not apply to a value, as JSON schema says. */
static int check_value(const json_t *schema, const json_t *value, const struct json_path *at)
{
	const json_t *fixed = json_object_get(schema, "const");

	if (at->depth > JSON_SCHEMA_DEPTH)
		return wrong(at, "is nested too deeply to be checked");
	if (json_is_boolean(schema))
		return json_is_true(schema) ? 0 : wrong(at, "is not allowed here");
	if (check_type(json_object_get(schema, "type"), value, at) < 0 ||
	    check_enum(json_object_get(schema, "enum"), value, at) < 0 || check_combined(schema, value, at) < 0)
		return -1;
	if (fixed && !json_equal(fixed, value))
		return wrong(at, "does not have the required value");
	if (json_is_number(value))
		return check_range(schema, value, at);
	if (json_is_string(value))
		return check_count(schema, "minLength", "maxLength", count_characters(value), "characters", at);
	if (json_is_array(value))
		return check_array(schema, value, at);
	return json_is_object(value) ? check_object(schema, value, at) : 0;
}

int json_schema_check(const json_t *schema, const json_t *value, struct err *e)
{
	struct json_path at = { .e = e };

	return check_value(schema, value, &at);
}

/* ---- the schema itself ---- */

enum form {
	FORM_ANY, /* whatever it is */
	FORM_NUMBER,
	FORM_COUNT,  /* a whole number, 0 or more */
	FORM_WORDS,  /* an array of strings */
	FORM_VALUES, /* an array */
	FORM_TYPE,   /* the name of a type, or several */
	FORM_SCHEMA,
	FORM_SCHEMAS, /* an array of them */
	FORM_MEMBERS, /* an object of them */
};

static const struct {
	const char *name;
	enum form form;
} keywords[] = {
	{ "type", FORM_TYPE },
	{ "enum", FORM_VALUES },
	{ "const", FORM_ANY },
	{ "properties", FORM_MEMBERS },
	{ "required", FORM_WORDS },
	{ "additionalProperties", FORM_SCHEMA },
	{ "items", FORM_SCHEMA },
	{ "minItems", FORM_COUNT },
	{ "maxItems", FORM_COUNT },
	{ "minimum", FORM_NUMBER },
	{ "maximum", FORM_NUMBER },
	{ "exclusiveMinimum", FORM_NUMBER },
	{ "exclusiveMaximum", FORM_NUMBER },
	{ "minLength", FORM_COUNT },
	{ "maxLength", FORM_COUNT },
	{ "anyOf", FORM_SCHEMAS },
	{ "oneOf", FORM_SCHEMAS },
	{ "allOf", FORM_SCHEMAS },
	{ "not", FORM_SCHEMA },
	/* These restrict nothing. $defs only matters to $ref, which does not count here. */
	{ "title", FORM_ANY },
	{ "description", FORM_ANY },
	{ "default", FORM_ANY },
	{ "examples", FORM_ANY },
	{ "deprecated", FORM_ANY },
	{ "readOnly", FORM_ANY },
	{ "writeOnly", FORM_ANY },
	{ "$schema", FORM_ANY },
	{ "$id", FORM_ANY },
	{ "$comment", FORM_ANY },
	{ "$defs", FORM_ANY },
	{ "definitions", FORM_ANY },
	{ "enumNames", FORM_ANY },
};

static int verify_schema(const json_t *schema, json_t *unchecked, const struct json_path *at);

static bool is_type_name(const json_t *v)
{
	static const char *const names[] = { "object", "array", "string", "integer", "number", "boolean", "null" };
	const char *name = json_string_value(v);

	for (size_t i = 0; name && i < countof(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static int verify_type(const json_t *v, const struct json_path *at)
{
	const json_t *one;
	bool known = json_is_array(v) ? json_array_size(v) > 0 : is_type_name(v);
	size_t i;

	json_array_foreach (v, i, one)
		known &= is_type_name(one);
	return known ? 0
		     : wrong(at,
			     "expected object, array, string, integer, number, boolean, null, or an array of these");
}

static int verify_words(const json_t *v, const struct json_path *at)
{
	const json_t *one;
	size_t i;

	json_array_foreach (v, i, one)
		if (!json_is_string(one))
			return wrong(at, "expected an array of strings");
	return json_is_array(v) ? 0 : wrong(at, "expected an array of strings");
}

static int verify_schemas(const json_t *v, json_t *unchecked, const struct json_path *at)
{
	const json_t *one;
	size_t i;

	if (json_array_size(v) == 0)
		return wrong(at, "expected an array of schemas");
	json_array_foreach (v, i, one) {
		struct json_path p = path_below(at, NULL, i);

		if (verify_schema(one, unchecked, &p) < 0)
			return -1;
	}
	return 0;
}

static int verify_members(const json_t *v, json_t *unchecked, const struct json_path *at)
{
	const json_t *one;
	const char *name;

	if (!json_is_object(v))
		return wrong(at, "expected an object of schemas");
	json_object_foreach ((json_t *)(uintptr_t)v, name, one) {
		struct json_path p = path_below(at, name, 0);

		if (verify_schema(one, unchecked, &p) < 0)
			return -1;
	}
	return 0;
}

static int verify_keyword(enum form form, const json_t *v, json_t *unchecked, const struct json_path *at)
{
	switch (form) {
	case FORM_ANY: return 0;
	case FORM_NUMBER: return json_is_number(v) ? 0 : wrong(at, "expected a number");
	case FORM_COUNT:
		return json_is_integer(v) && json_integer_value(v) >= 0
			       ? 0
			       : wrong(at, "expected a whole number, 0 or more");
	case FORM_VALUES: return json_array_size(v) ? 0 : wrong(at, "expected an array with at least one value");
	case FORM_WORDS: return verify_words(v, at);
	case FORM_TYPE: return verify_type(v, at);
	case FORM_SCHEMA: return verify_schema(v, unchecked, at);
	case FORM_SCHEMAS: return verify_schemas(v, unchecked, at);
	case FORM_MEMBERS: return verify_members(v, unchecked, at);
	}
	return 0;
}

/* A keyword that is not supported is not an error, but its author must learn that it restricts nothing. */
static void note_unchecked(json_t *unchecked, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach (unchecked, i, one)
		if (strcmp(json_string_value(one), name) == 0)
			return;
	if (unchecked)
		json_array_append_new(unchecked, json_string(name));
}

static int verify_schema(const json_t *schema, json_t *unchecked, const struct json_path *at)
{
	const json_t *v;
	const char *name;

	if (at->depth > JSON_SCHEMA_DEPTH)
		return wrong(at, "is nested more than %d deep", JSON_SCHEMA_DEPTH);
	if (json_is_boolean(schema))
		return 0;
	if (!json_is_object(schema))
		return wrong(at, "expected a schema: an object, true or false");
	json_object_foreach ((json_t *)(uintptr_t)schema, name, v) {
		struct json_path p = path_below(at, name, 0);
		size_t i = 0;

		while (i < countof(keywords) && strcmp(keywords[i].name, name) != 0)
			i++;
		/* One schema for each element in turn is how older drafts wrote it. */
		bool ignored = i == countof(keywords) || (strcmp(name, "items") == 0 && json_is_array(v));
		if (ignored)
			note_unchecked(unchecked, name);
		else if (verify_keyword(keywords[i].form, v, unchecked, &p) < 0)
			return -1;
	}
	return 0;
}

int json_schema_verify(const json_t *schema, json_t *unchecked, struct err *e)
{
	struct json_path at = { .e = e };

	return verify_schema(schema, unchecked, &at);
}

/* For values that passed the check: a real where the schema says integer is then a whole number. */
void json_schema_normalise_integers(const json_t *schema, json_t *value)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *key;
	json_t *v;

	json_object_foreach (value, key, v) {
		const char *type = json_string_value(json_object_get(json_object_get(properties, key), "type"));

		if (json_is_real(v) && type && strcmp(type, "integer") == 0)
			json_object_set_new(value, key, json_integer((json_int_t)json_real_value(v)));
	}
}
