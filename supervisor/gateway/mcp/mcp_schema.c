#include "supervisor/gateway/mcp/mcp_schema.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16

struct place {
	char path[ERR_FIELD_MAX];
	int depth;
	struct err *e;
};

static int check(const json_t *schema, const json_t *value, const struct place *at);

static struct place below(const struct place *at, const char *key, size_t index)
{
	struct place p = { .depth = at->depth + 1, .e = at->e };

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
	} types[] = { { "object", JSON_OBJECT }, { "array", JSON_ARRAY }, { "string", JSON_STRING }, { "integer", JSON_INTEGER }, { "null", JSON_NULL } };

	if (strcmp(type, "boolean") == 0)
		return json_is_boolean(v);
	if (strcmp(type, "number") == 0)
		return json_is_number(v);
	if (strcmp(type, "integer") == 0 && json_is_real(v)) /* 3.0 is one to JSON schema */
		return json_real_value(v) > -9e15 && json_real_value(v) < 9e15 && json_real_value(v) == (double)(long long)json_real_value(v);
	for (size_t i = 0; i < countof(types); i++)
		if (strcmp(types[i].name, type) == 0)
			return json_typeof(v) == types[i].type;
	return true;
}

static int check_type(const json_t *type, const json_t *value, const struct place *at)
{
	const json_t *one;
	size_t i;

	if (json_is_string(type))
		return is_type(json_string_value(type), value) ? 0 : wrong(at, "expected %s", json_string_value(type));
	json_array_foreach(type, i, one)
		if (json_is_string(one) && is_type(json_string_value(one), value))
			return 0;
	return json_is_array(type) ? wrong(at, "has a type that is not allowed here") : 0;
}

static int check_enum(const json_t *words, const json_t *value, const struct place *at)
{
	char list[200] = "";
	const json_t *one;
	size_t i, len = 0;

	if (!json_is_array(words))
		return 0;
	json_array_foreach(words, i, one) {
		if (json_equal(one, value))
			return 0;
		if (json_is_string(one) && len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.40s", i ? ", " : "", json_string_value(one));
	}
	return wrong(at, "expected one of %s", list);
}

static int check_range(const json_t *schema, const json_t *value, const struct place *at)
{
	const json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");
	double v = json_number_value(value);

	if (json_is_number(least) && v < json_number_value(least))
		return wrong(at, "must be at least %.15g", json_number_value(least));
	if (json_is_number(most) && v > json_number_value(most))
		return wrong(at, "must be at most %.15g", json_number_value(most));
	return 0;
}

static int check_count(const json_t *schema, const char *least_key, const char *most_key, size_t n, const char *of, const struct place *at)
{
	const json_t *least = json_object_get(schema, least_key), *most = json_object_get(schema, most_key);

	if (json_is_integer(least) && (json_int_t)n < json_integer_value(least))
		return json_integer_value(least) == 1 ? wrong(at, "must not be empty") : wrong(at, "must have at least %lld %s", (long long)json_integer_value(least), of);
	if (json_is_integer(most) && (json_int_t)n > json_integer_value(most))
		return wrong(at, "must have at most %lld %s", (long long)json_integer_value(most), of);
	return 0;
}

static int unknown(const json_t *properties, const struct place *at)
{
	char list[ERR_MESSAGE_MAX] = "";
	size_t len = 0;
	const json_t *v;
	const char *name;

	json_object_foreach((json_t *)properties, name, v)
		if (len < sizeof(list))
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%.40s", len ? ", " : "", name);
	return *list ? wrong(at, "is not known here; there are %s", list) : wrong(at, "is not known here");
}

static int check_object(const json_t *schema, const json_t *value, const struct place *at)
{
	const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required"), *member;
	bool closed = json_is_false(json_object_get(schema, "additionalProperties"));
	const char *key;
	size_t i;

	json_array_foreach(required, i, member)
		if (json_is_string(member) && !json_object_get(value, json_string_value(member))) {
			struct place p = below(at, json_string_value(member), 0);
			return wrong(&p, "is required");
		}
	json_object_foreach((json_t *)value, key, member) {
		const json_t *sub = json_object_get(properties, key);
		struct place p = below(at, key, 0);

		if (!sub && closed)
			return unknown(properties, &p);
		if (sub && check(sub, member, &p) < 0)
			return -1;
	}
	return 0;
}

static int check_array(const json_t *schema, const json_t *value, const struct place *at)
{
	const json_t *items = json_object_get(schema, "items"), *one;
	size_t i;

	if (check_count(schema, "minItems", "maxItems", json_array_size(value), "elements", at) < 0)
		return -1;
	json_array_foreach(value, i, one) {
		struct place p = below(at, NULL, i);
		if (items && check(items, one, &p) < 0)
			return -1;
	}
	return 0;
}

static int check_any(const json_t *of, const json_t *value, const struct place *at)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(of))
		return 0;
	json_array_foreach(of, i, one) {
		struct err ignored = ERR_INIT;
		struct place p = *at;

		p.e = &ignored;
		p.depth++;
		if (check(one, value, &p) == 0)
			return 0;
	}
	return wrong(at, "is none of what is allowed here");
}

static int check(const json_t *schema, const json_t *value, const struct place *at)
{
	const json_t *fixed = json_object_get(schema, "const");

	if (!json_is_object(schema) || at->depth > DEPTH_MAX)
		return 0;
	if (check_type(json_object_get(schema, "type"), value, at) < 0 || check_enum(json_object_get(schema, "enum"), value, at) < 0 ||
	    check_any(json_object_get(schema, "anyOf"), value, at) < 0 || check_any(json_object_get(schema, "oneOf"), value, at) < 0)
		return -1;
	if (fixed && !json_equal(fixed, value))
		return wrong(at, "is not what it must be");
	if (json_is_number(value))
		return check_range(schema, value, at);
	if (json_is_string(value))
		return check_count(schema, "minLength", "maxLength", json_string_length(value), "characters", at);
	if (json_is_array(value))
		return check_array(schema, value, at);
	return json_is_object(value) ? check_object(schema, value, at) : 0;
}

int mcp_schema_check(const json_t *schema, const json_t *value, struct err *e)
{
	struct place at = { .e = e };

	return check(schema, value, &at);
}

void mcp_schema_settle(const json_t *schema, json_t *value)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *key;
	json_t *v;

	json_object_foreach(value, key, v) {
		const char *type = json_string_value(json_object_get(json_object_get(properties, key), "type"));

		if (json_is_real(v) && type && strcmp(type, "integer") == 0)
			json_object_set_new(value, key, json_integer((json_int_t)json_real_value(v)));
	}
}
