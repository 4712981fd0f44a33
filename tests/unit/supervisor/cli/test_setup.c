#include "supervisor/cli/setup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <string.h>

static const struct setup_entry entry = { .program = "/opt/bailiff" };

/* Also checks that merging the result again changes nothing, so that a repeated set-up adds nothing. */
static char *merged(enum setup_form form, const char *present)
{
	struct buf once = BUF_INIT, buf_auto twice = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(setup_merge(form, present, &entry, &once, &e) == 0, "%s", e.message);
	ck_assert_int_eq(setup_merge(form, buf_cstr(&once), &entry, &twice, &e), 0);
	ck_assert_str_eq(buf_cstr(&once), buf_cstr(&twice));
	return once.data;
}

static void check_rejected(enum setup_form form, const char *present, const char *where)
{
	struct buf buf_auto out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(setup_merge(form, present, &entry, &out, &e), -1);
	ck_assert_msg(strstr(e.message, where) != NULL, "%s", e.message);
}

static void has(enum setup_form form, const char *present, const char *const *words, size_t n)
{
	char *text = merged(form, present);

	for (size_t i = 0; i < n; i++)
		ck_assert_msg(strstr(text, words[i]) != NULL, "no %s in\n%s", words[i], text);
	free(text);
}
#define HAS(form, present, ...)                                  \
	has(form, present, (const char *const[]){ __VA_ARGS__ }, \
	    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

START_TEST(an_entry_is_added_to_json_files)
{
	HAS(SETUP_MCP_SERVERS, NULL, "\"mcpServers\"", "\"bailiff\"", "\"/opt/bailiff\"", "\"mcp\"");
	HAS(SETUP_MCP_SERVERS, " \n", "\"bailiff\"");
	HAS(SETUP_VSCODE_SERVERS, NULL, "\"servers\"", "\"type\": \"stdio\"");
	HAS(SETUP_MCP_SERVERS,
	    "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\"other\": {\"url\": \"http://x\"}},\n    \"z\": [1, "
	    "2.5, null]\n}\n",
	    "    \"theme\": \"dark\"", "\"other\"", "\"http://x\"", "2.5", "null", "\"bailiff\"");
	HAS(SETUP_MCP_SERVERS, "{\"mcpServers\": {\"bailiff\": {\"command\": \"/old\"}}}", "\"/opt/bailiff\"");
}
END_TEST

START_TEST(an_existing_entry_is_not_changed)
{
	const char *present =
		"{\"mcpServers\":{\"bailiff\":{\"args\":[\"mcp\"],\"command\":\"/opt/bailiff\"}},   \"x\":1}";
	char *text = merged(SETUP_MCP_SERVERS, present);

	ck_assert_str_eq(text, present);
	free(text);
}
END_TEST

#define OWN(at)                                                                                               \
	"\"bailiff\": {\n" at "  \"command\": \"/opt/bailiff\",\n" at "  \"args\": [\n" at "    \"mcp\"\n" at \
	"  ]\n" at "}"

static void check_merged(enum setup_form form, const char *present, const char *text)
{
	char *got = merged(form, present);

	ck_assert_str_eq(got, text);
	free(got);
}

START_TEST(other_contents_stay_byte_for_byte)
{
	check_merged(
		SETUP_MCP_SERVERS,
		"{\"x\": 0.1, \"y\": [1,  2],\n  \"mcpServers\": {\n    \"a\": {\"u\": \"\\u00e9\"}\n  }, \"z\": 1e3}",
		"{\"x\": 0.1, \"y\": [1,  2],\n  \"mcpServers\": {\n    \"a\": {\"u\": \"\\u00e9\"},\n    " OWN(
			"    ") "\n  }, \"z\": 1e3}");
	check_merged(SETUP_MCP_SERVERS, "{\n  \"mcpServers\": {\"a\": 1}\n}\n",
		     "{\n  \"mcpServers\": {\"a\": 1,\n    " OWN("    ") "\n  }\n}\n");
	check_merged(SETUP_MCP_SERVERS, "{\n  \"a\": true\n}\n",
		     "{\n  \"a\": true,\n  \"mcpServers\": {\n    " OWN("    ") "\n  }\n}\n");
	check_merged(SETUP_MCP_SERVERS, "{\n  \"mcpServers\": {\n    \"bailiff\": 5,\n    \"b\": \"}\"\n  }\n}",
		     "{\n  \"mcpServers\": {\n    " OWN("    ") ",\n    \"b\": \"}\"\n  }\n}");
	/* A member with the same name elsewhere is another one. */
	check_merged(SETUP_MCP_SERVERS, "{\"p\": {\"mcpServers\": {}}}",
		     "{\"p\": {\"mcpServers\": {}},\n  \"mcpServers\": {\n    " OWN("    ") "\n  }\n}");
	/* Members that the user added to our entry */
	HAS(SETUP_MCP_SERVERS,
	    "{\"mcpServers\": {\"bailiff\": {\"command\": \"/old\", \"timeout\": 5000, \"env\": {\"BAILIFF_HOME\": "
	    "\"/x\", \"A\": \"b\"}}}}",
	    "\"timeout\": 5000", "\"env\": {\n    \"A\": \"b\"\n  }");
}
END_TEST

START_TEST(comments_are_kept)
{
	check_merged(
		SETUP_COMMENTED_MCP_SERVERS,
		"// mine\n{\n  /* all */ \"mcpServers\": {\n    \"a\": 1 // \"the\" first\n    // more?\n  } // "
		"end\n}\n",
		"// mine\n{\n  /* all */ \"mcpServers\": {\n    \"a\": 1, // \"the\" first\n    // more?\n    " OWN(
			"    ") "\n  } // end\n}\n");
	check_merged(SETUP_COMMENTED_MCP_SERVERS, "", "{\n  \"mcpServers\": {\n    " OWN("    ") "\n  }\n}\n");
	HAS(SETUP_COMMENTED_MCP_SERVERS, "// nothing yet", "// nothing yet\n{\n");
	HAS(SETUP_COMMENTED_MCP_SERVERS, "{\"a\": \"// no comment, /* nor this\"}",
	    "{\"a\": \"// no comment, /* nor this\",\n");
	HAS(SETUP_VSCODE_SERVERS, "{\r\n\t\"servers\": {\r\n\t\t\"a\": [1, 2,], // a\r\n\t},\r\n}\r\n",
	    "\t\t\"a\": [1, 2,], // a\r\n\t\t\"bailiff\": {\r\n\t\t\t\"type\": \"stdio\",\r\n", "\r\n\t},\r\n}\r\n");
	check_rejected(SETUP_COMMENTED_MCP_SERVERS, "{\n  // a\n  \"a\": 1,\n}", "line 4");
	check_rejected(SETUP_VSCODE_SERVERS, "{\n /* never ends", "line 2");
	check_rejected(SETUP_VSCODE_SERVERS, "{\n \"a\": 1,,\n}", "line 2");
}
END_TEST

START_TEST(invalid_files_are_rejected_with_the_position)
{
	check_rejected(SETUP_MCP_SERVERS, "{\"mcp\\u0053ervers\": {}}", "not written as such");
	check_rejected(SETUP_MCP_SERVERS, "{\n  \"a\": 1,\n}", "line 3");
	check_rejected(SETUP_MCP_SERVERS, "{ // comment\n}", "line 1");
	check_rejected(SETUP_MCP_SERVERS, "[]", "not an object");
	check_rejected(SETUP_MCP_SERVERS, "{\"mcpServers\": []}", "mcpServers");
	check_rejected(SETUP_MCP_SERVERS, "{\"a\":1,\"a\":2}", "duplicate");
	check_rejected(SETUP_CODEX_ENVIRONMENTS, "default = \"x\"\nnonsense\n", "line 2");
	check_rejected(SETUP_CODEX_ENVIRONMENTS, "environments = []\n", "line 1");
	check_rejected(SETUP_CODEX_ENVIRONMENTS, "a = \"\"\"\n\"\"\"\n", "line 1");
	check_rejected(SETUP_CODEX_ENVIRONMENTS, "[broken\n", "line 1");
}
END_TEST

START_TEST(an_entry_is_added_to_toml_files)
{
	HAS(SETUP_CODEX_ENVIRONMENTS, NULL, "default = \"bailiff\"\n", "include_local = false\n",
	    "[[environments]]\nid = \"bailiff\"\nprogram = \"/opt/bailiff\"\n", "args = [\"codex-exec-server\"]");
	HAS(SETUP_CODEX_ENVIRONMENTS,
	    "# mine\ndefault = \"far\" # the far one\ninclude_local = true\n\n[[environments]]\nid = \"far\"\nurl = "
	    "\"ws://h\"\n",
	    "# mine\n", "default = \"bailiff\" # the far one\ninclude_local = true\n",
	    "id = \"far\"\nurl = \"ws://h\"\n", "id = \"bailiff\"");
	HAS(SETUP_CODEX_ENVIRONMENTS, "[[ environments ]] # us\nid = \"bailiff\"\n",
	    "[[ environments ]] # us\nid = \"bailiff\"\nprogram = \"/opt/bailiff\"\n");
	HAS(SETUP_CODEX_ENVIRONMENTS,
	    "default = \"bailiff\"\n[[environments]]\nid = \"bailiff\" # us\nprogram = \"/old\"\nargs = [\n  \"a\",\n  "
	    "\"b\",\n]\n"
	    "extra = 1\n[[environments]]\nid = \"b\"\n",
	    "id = \"bailiff\"\nprogram = \"/opt/bailiff\"\nargs = [\"codex-exec-server\"]\nextra = "
	    "1\n[[environments]]\nid = \"b\"\n");
}
END_TEST

START_TEST(arrays_in_arrays_over_several_lines_are_kept)
{
	HAS(SETUP_CODEX_ENVIRONMENTS, "a = [\n  [1, 2], # [\n  [\n    \"]\",\n  ],\n]\ndefault = \"x\"\n[t]\nb = 1\n",
	    "a = [\n  [1, 2], # [\n  [\n    \"]\",\n  ],\n]\ndefault = \"bailiff\"\n[t]\nb = 1\n");
	/* What looks like a table, or like a key of ours, in an array is neither. */
	HAS(SETUP_CODEX_ENVIRONMENTS,
	    "[[environments]]\nid = \"bailiff\"\nargs = [\n  [\n[\"x\"]\n  ],\n]\nextra = [\n[[1]],\n{ id = \"b\" "
	    "},\n]\nlast = "
	    "1\n",
	    "args = [\"codex-exec-server\"]\nextra = [\n[[1]],\n{ id = \"b\" },\n]\nlast = 1\n");
	HAS(SETUP_CODEX_ENVIRONMENTS, "[[environments]]\nextra = [\n[1],\n]\nid = \"bailiff\"\n",
	    "[[environments]]\nid = \"bailiff\"\nprogram = \"/opt/bailiff\"\nargs = [\"codex-exec-server\"]\nextra = "
	    "[\n[1],\n]\n");
	check_rejected(SETUP_CODEX_ENVIRONMENTS, "a = [\n  [\n]\n", "line 3");
}
END_TEST

START_TEST(the_home_is_part_of_the_entry)
{
	const struct setup_entry with_home = { .program = "/opt/bailiff", .home = "/srv/\"b" };
	struct buf buf_auto json = BUF_INIT, toml = BUF_INIT;

	ck_assert_int_eq(setup_merge(SETUP_MCP_SERVERS, NULL, &with_home, &json, NULL), 0);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&json), "\"BAILIFF_HOME\": \"/srv/\\\"b\""));
	ck_assert_int_eq(setup_merge(SETUP_CODEX_ENVIRONMENTS, NULL, &with_home, &toml, NULL), 0);
	ck_assert_ptr_nonnull(strstr(buf_cstr(&toml),
				     "args = [\"BAILIFF_HOME=/srv/\\\"b\", \"/opt/bailiff\", \"codex-exec-server\"]"));
}
END_TEST

int main(void)
{
	return SUITE("setup", an_entry_is_added_to_json_files, an_existing_entry_is_not_changed,
		     other_contents_stay_byte_for_byte, comments_are_kept, invalid_files_are_rejected_with_the_position,
		     an_entry_is_added_to_toml_files, arrays_in_arrays_over_several_lines_are_kept,
		     the_home_is_part_of_the_entry);
}
