#include "supervisor/gateway/mcp/mcp_resource.h"

#include "tests/unit/suite.h"

#include <string.h>

#define JSON(...) #__VA_ARGS__

START_TEST(test_templates_match_uris)
{
	static const struct {
		const char *pattern, *uri, *vars; /* NULL: no match */
	} rows[] = {
		{ "t://a/{id}/data", "t://a/12/data", JSON({ "id" : "12" }) },
		{ "t://a/{id}/data", "t://a/x%2Fy%20/data", JSON({ "id" : "x/y " }) },
		{ "t://a/{id}/data", "t://a//data", NULL },
		{ "t://a/{id}/data", "t://a/1/2/data", NULL },
		{ "t://a/{id}/data", "t://a/1/data/more", NULL },
		{ "t://a/{id}/data", "t://a/1", NULL },
		{ "t://{x}/{+rest}", "t://h/a/b?c", JSON({ "x" : "h", "rest" : "a/b?c" }) },
		{ "t://{x}/{+rest}", "t://h/", NULL },
		{ "t://{x}.{y}", "t://a.b.c", JSON({ "x" : "a", "y" : "b.c" }) },
		{ "t://{x}", "t://%4", JSON({ "x" : "%4" }) },
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

int main(void) { return SUITE("mcp_resource", test_templates_match_uris); }
