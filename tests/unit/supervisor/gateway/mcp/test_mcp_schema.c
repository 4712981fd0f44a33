#include "supervisor/gateway/mcp/mcp_schema.h"

#include "runtime/base/err.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "tests/unit/suite.h"

#include <string.h>

#define JSON(...) #__VA_ARGS__

static const char schema[] = JSON({"type": "object", "required": ["a"], "additionalProperties": false, "properties": {
	"a": {"type": "string", "minLength": 1, "maxLength": 3}, "n": {"type": "integer", "minimum": 1, "maximum": 9}, "r": {"type": "number"},
	"b": {"type": "boolean"}, "e": {"type": "string", "enum": ["x", "y"]}, "l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
	"o": {"type": "object", "properties": {"deep": {"type": "integer"}}}, "t": {"type": ["string", "null"]},
	"c": {"oneOf": [{"const": "p"}, {"const": "q"}]}}});

START_TEST(test_rows)
{
	static const struct {
		const char *value, *field; /* NULL: it fits */
	} rows[] = {
		{ JSON({"a": "x"}), NULL },
		{ JSON({"a": "x", "n": 3, "r": 1.5, "b": true, "e": "y", "l": ["s"], "o": {"deep": 1, "more": 2}, "t": null, "c": "q"}), NULL },
		{ JSON({"a": "x", "n": 3.0}), NULL },
		{ JSON([]), "" },
		{ JSON({}), "a" },
		{ JSON({"a": 1}), "a" },
		{ JSON({"a": ""}), "a" },
		{ JSON({"a": "long"}), "a" },
		{ JSON({"a": "x", "n": 0}), "n" },
		{ JSON({"a": "x", "n": 10}), "n" },
		{ JSON({"a": "x", "n": 1.5}), "n" },
		{ JSON({"a": "x", "n": 1e300}), "n" },
		{ JSON({"a": "x", "b": 1}), "b" },
		{ JSON({"a": "x", "e": "z"}), "e" },
		{ JSON({"a": "x", "l": []}), "l" },
		{ JSON({"a": "x", "l": ["1", "2", "3"]}), "l" },
		{ JSON({"a": "x", "l": ["1", 2]}), "l[1]" },
		{ JSON({"a": "x", "o": {"deep": "1"}}), "o.deep" },
		{ JSON({"a": "x", "t": 1}), "t" },
		{ JSON({"a": "x", "c": "r"}), "c" },
		{ JSON({"a": "x", "unknown": 1}), "unknown" },
	};
	json_auto_t *s = json_loads(schema, 0, NULL);

	ck_assert_ptr_nonnull(s);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *v = json_loads(rows[i].value, 0, NULL);
		struct err e = ERR_INIT;
		int r = mcp_schema_check(s, v, &e);

		ck_assert_msg((r == 0) == !rows[i].field, "%s: %s", rows[i].value, e.message);
		if (rows[i].field)
			ck_assert_msg(strcmp(e.field, rows[i].field) == 0, "%s: %s", rows[i].value, e.field);
	}
}
END_TEST

START_TEST(test_templates)
{
	static const struct {
		const char *pattern, *uri, *vars; /* NULL: no match */
	} rows[] = {
		{ "t://a/{id}/data", "t://a/12/data", JSON({"id": "12"}) },
		{ "t://a/{id}/data", "t://a/x%2Fy%20/data", JSON({"id": "x/y "}) },
		{ "t://a/{id}/data", "t://a//data", NULL },
		{ "t://a/{id}/data", "t://a/1/2/data", NULL },
		{ "t://a/{id}/data", "t://a/1/data/more", NULL },
		{ "t://a/{id}/data", "t://a/1", NULL },
		{ "t://{x}/{+rest}", "t://h/a/b?c", JSON({"x": "h", "rest": "a/b?c"}) },
		{ "t://{x}/{+rest}", "t://h/", NULL },
		{ "t://{x}.{y}", "t://a.b.c", JSON({"x": "a", "y": "b.c"}) },
		{ "t://{x}", "t://%4", JSON({"x": "%4"}) },
		{ "t://{x", "t://a", NULL },
		{ "t://fixed", "t://fixed", JSON({}) },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_auto_t *vars = NULL, *want = rows[i].vars ? json_loads(rows[i].vars, 0, NULL) : NULL;
		bool matches = mcp_resource_match(rows[i].pattern, rows[i].uri, &vars);

		ck_assert_msg(matches == (rows[i].vars != NULL), "%s %s", rows[i].pattern, rows[i].uri);
		if (matches)
			ck_assert_msg(json_equal(vars, want), "%s %s", rows[i].pattern, rows[i].uri);
	}
}
END_TEST

int main(void)
{
	return SUITE("mcp_schema", test_rows, test_templates);
}
