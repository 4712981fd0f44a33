#include "runtime/base/json_schema.h"

#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <string.h>

#define JSON(...) #__VA_ARGS__

static const char schema[] = JSON({
	"type" : "object",
	"required" : ["a"],
	"additionalProperties" : false,
	"properties" : {
		"a" : { "type" : "string", "minLength" : 1, "maxLength" : 3 },
		"n" : { "type" : "integer", "minimum" : 1, "maximum" : 9 },
		"r" : { "type" : "number" },
		"b" : { "type" : "boolean" },
		"e" : { "type" : "string", "enum" : [ "x", "y" ] },
		"l" : { "type" : "array", "minItems" : 1, "maxItems" : 2, "items" : { "type" : "string" } },
		"o" : { "type" : "object", "properties" : { "deep" : { "type" : "integer" } } },
		"t" : { "type" : [ "string", "null" ] },
		"c" : { "oneOf" : [ { "const" : "p" }, { "const" : "q" } ] }
	}
});

START_TEST(test_errors_name_the_field)
{
	static const struct {
		const char *value, *field; /* NULL: valid */
	} rows[] = {
		{ JSON({ "a" : "x" }), NULL },
		{ JSON({
			  "a" : "x",
			  "n" : 3,
			  "r" : 1.5,
			  "b" : true,
			  "e" : "y",
			  "l" : ["s"],
			  "o" : { "deep" : 1, "more" : 2 },
			  "t" : null,
			  "c" : "q"
		  }),
		  NULL },
		{ JSON({ "a" : "x", "n" : 3.0 }), NULL },
		{ JSON([]), "" },
		{ JSON({}), "a" },
		{ JSON({ "a" : 1 }), "a" },
		{ JSON({ "a" : "" }), "a" },
		{ JSON({ "a" : "long" }), "a" },
		{ JSON({ "a" : "x", "n" : 0 }), "n" },
		{ JSON({ "a" : "x", "n" : 10 }), "n" },
		{ JSON({ "a" : "x", "n" : 1.5 }), "n" },
		{ JSON({ "a" : "x", "n" : 1e300 }), "n" },
		{ JSON({ "a" : "x", "b" : 1 }), "b" },
		{ JSON({ "a" : "x", "e" : "z" }), "e" },
		{ JSON({ "a" : "x", "l" : [] }), "l" },
		{ JSON({ "a" : "x", "l" : [ "1", "2", "3" ] }), "l" },
		{ JSON({ "a" : "x", "l" : [ "1", 2 ] }), "l[1]" },
		{ JSON({ "a" : "x", "o" : { "deep" : "1" } }), "o.deep" },
		{ JSON({ "a" : "x", "t" : 1 }), "t" },
		{ JSON({ "a" : "x", "c" : "r" }), "c" },
		{ JSON({ "a" : "x", "unknown" : 1 }), "unknown" },
	};
	json_auto_t *s = json_loads(schema, 0, NULL);

	ck_assert_ptr_nonnull(s);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *v = json_loads(rows[i].value, 0, NULL);
		struct err e = ERR_INIT;
		int r = json_schema_check(s, v, &e);

		ck_assert_msg((r == 0) == !rows[i].field, "%s: %s", rows[i].value, e.message);
		if (rows[i].field)
			ck_assert_msg(strcmp(e.field, rows[i].field) == 0, "%s: %s", rows[i].value, e.field);
	}
}
END_TEST

START_TEST(test_keywords_are_applied)
{
	static const struct {
		const char *schema, *value;
		bool fits;
	} rows[] = {
		{ JSON(true), JSON(1), true },
		{ JSON(false), JSON(1), false },
		{ JSON({}), JSON([ 1, "x" ]), true },
		{ JSON({ "maxLength" : 3 }), "\"\xc3\xa4\xc3\xb6\xc3\xbc\"", true }, /* characters, not bytes */
		{ JSON({ "minLength" : 4 }), "\"\xc3\xa4\xc3\xb6\xc3\xbc\"", false },
		{ JSON({ "exclusiveMinimum" : 1 }), JSON(1), false },
		{ JSON({ "exclusiveMinimum" : 1 }), JSON(1.5), true },
		{ JSON({ "exclusiveMaximum" : 1 }), JSON(1), false },
		{ JSON({
			  "additionalProperties" : { "type" : "string" },
			  "properties" : { "n" : { "type" : "integer" } }
		  }),
		  JSON({ "n" : 1, "x" : "y" }), true },
		{ JSON({
			  "additionalProperties" : { "type" : "string" },
			  "properties" : { "n" : { "type" : "integer" } }
		  }),
		  JSON({ "n" : 1, "x" : 2 }), false },
		{ JSON({ "allOf" : [ { "minimum" : 1 }, { "maximum" : 3 } ] }), JSON(2), true },
		{ JSON({ "allOf" : [ { "minimum" : 1 }, { "maximum" : 3 } ] }), JSON(4), false },
		{ JSON({ "oneOf" : [ { "minimum" : 1 }, { "maximum" : 3 } ] }), JSON(2), false }, /* both */
		{ JSON({ "oneOf" : [ { "minimum" : 1 }, { "maximum" : 3 } ] }), JSON(4), true },
		{ JSON({ "anyOf" : [ { "minimum" : 1 }, { "maximum" : 3 } ] }), JSON(2), true },
		{ JSON({ "not" : { "type" : "string" } }), JSON("x"), false },
		{ JSON({ "not" : { "type" : "string" } }), JSON(1), true },
		{ JSON({ "type" : "strnig" }), JSON("x"), false }, /* not a valid type */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *s = json_loads(rows[i].schema, JSON_DECODE_ANY, NULL),
			    *v = json_loads(rows[i].value, JSON_DECODE_ANY, NULL);
		struct err e = ERR_INIT;

		ck_assert(s && v);
		ck_assert_msg((json_schema_check(s, v, &e) == 0) == rows[i].fits, "%s: %s: %s", rows[i].schema,
			      rows[i].value, e.message);
	}
}
END_TEST

START_TEST(test_schemas_are_verified_and_unchecked_keywords_listed)
{
	static const struct {
		const char *schema, *field, *unchecked; /* field NULL: a valid schema */
	} rows[] = {
		{ JSON(true), NULL, JSON([]) },
		{ JSON({
			  "type" : [ "string", "null" ],
			  "title" : 1,
			  "description" : "d",
			  "default" : null,
			  "$schema" : "s"
		  }),
		  NULL, JSON([]) },
		{ JSON({
			  "properties" : { "a" : { "pattern" : "^x", "format" : "uri" }, "b" : { "pattern" : "y" } },
			  "if" : {}
		  }),
		  NULL, JSON([ "pattern", "format", "if" ]) },
		{ JSON({ "items" : [ { "type" : "string" } ] }), NULL, JSON(["items"]) },
		{ JSON([]), "", NULL },
		{ JSON({ "type" : "strnig" }), "type", NULL },
		{ JSON({ "type" : [] }), "type", NULL },
		{ JSON({ "properties" : [] }), "properties", NULL },
		{ JSON({ "properties" : { "a" : { "items" : 3 } } }), "properties.a.items", NULL },
		{ JSON({ "required" : "a" }), "required", NULL },
		{ JSON({ "minLength" : -1 }), "minLength", NULL },
		{ JSON({ "minimum" : "1" }), "minimum", NULL },
		{ JSON({ "anyOf" : {} }), "anyOf", NULL },
		{ JSON({ "oneOf" : [1] }), "oneOf[0]", NULL },
		{ JSON({ "enum" : [] }), "enum", NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *s = json_loads(rows[i].schema, JSON_DECODE_ANY, NULL), *found = json_array();
		json_auto_t *want = rows[i].unchecked ? json_loads(rows[i].unchecked, 0, NULL) : NULL;
		struct err e = ERR_INIT;
		int r = json_schema_verify(s, found, &e);

		ck_assert_msg((r == 0) == !rows[i].field, "%s: %s", rows[i].schema, e.message);
		if (rows[i].field)
			ck_assert_msg(strcmp(e.field, rows[i].field) == 0, "%s: %s", rows[i].schema, e.field);
		else
			ck_assert_msg(json_equal(found, want), "%s", rows[i].schema);
	}
}
END_TEST

START_TEST(test_deeply_nested_schemas_and_values_are_rejected)
{
	json_auto_t *deep = json_object(), *value = json_string("x");
	struct err e = ERR_INIT;

	for (int i = 0; i < 2 * JSON_SCHEMA_DEPTH; i++) {
		json_t *outer = json_object(), *list = json_array();

		json_object_set(outer, "items", deep);
		json_decref(deep);
		deep = outer;
		json_array_append(list, value);
		json_decref(value);
		value = list;
	}
	ck_assert_int_lt(json_schema_verify(deep, NULL, &e), 0);
	ck_assert_int_lt(json_schema_check(deep, value, &e), 0);
}
END_TEST

int main(void)
{
	return SUITE("json_schema", test_errors_name_the_field, test_keywords_are_applied,
		     test_schemas_are_verified_and_unchecked_keywords_listed,
		     test_deeply_nested_schemas_and_values_are_rejected);
}
