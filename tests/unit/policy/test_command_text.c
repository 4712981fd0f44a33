#include "policy/command_text.h"

#include "policy/command_analysis.h"
#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"

#include "tests/unit/suite.h"

static void shows(const char *expected, const char *const *argv, size_t argc)
{
	buf_auto struct buf out = BUF_INIT;

	command_display(argv, argc, COMMAND_DISPLAY_MAX, &out);
	ck_assert_str_eq(buf_cstr(&out), expected);
}

#define SHOWS(expected, ...)                              \
	do {                                              \
		const char *const v_[] = { __VA_ARGS__ }; \
		shows(expected, v_, countof(v_));         \
	} while (0)

START_TEST(plain_words_are_not_quoted)
{
	SHOWS("ls -la /tmp/a.txt", "ls", "-la", "/tmp/a.txt");
	SHOWS("env A=b", "env", "A=b");
}
END_TEST

START_TEST(words_that_a_shell_would_expand_are_quoted)
{
	SHOWS("echo 'a b' '$HOME' ''", "echo", "a b", "$HOME", "");
	SHOWS("echo 'it'\\''s'", "echo", "it's");
	SHOWS("echo '~' 'a;b' 'ü'", "echo", "~", "a;b", "ü");
}
END_TEST

START_TEST(control_characters_are_escaped)
{
	SHOWS("echo $'\\x1b[31m'", "echo", "\x1b[31m");
	SHOWS("echo $'a\\nb\\'\\\\'", "echo", "a\nb'\\");
	SHOWS("echo $'\\xff\\xfe'", "echo", "\xff\xfe");
	SHOWS("echo $'\\xc2\\x9b2J'", "echo",
	      "\xc2\x9b"
	      "2J");
}
END_TEST

START_TEST(long_commands_are_truncated_with_a_note)
{
	buf_auto struct buf out = BUF_INIT, json = BUF_INIT;
	mem_auto char *big = mem_alloc(100001);
	const struct command_facts none = { 0 };
	struct jval v;

	memset(big, 'x', 100000);
	big[100000] = '\0';
	command_display((const char *const[]){ "echo", big, "the end" }, 3, COMMAND_DISPLAY_MAX, &out);
	ck_assert_uint_lt(out.len, COMMAND_DISPLAY_MAX + 64);
	ck_assert(strncmp(out.data, "echo xxx", 8) == 0 && strstr(out.data, "xxx … [95919 bytes left out] … xxx") &&
		  strstr(out.data, "xxx 'the end'"));
	command_json((const char *const[]){ "echo", big }, 2, &none, &json);
	v = jval_of(json.data, json.len);
	ck_assert(jval_bool(jval_get(v, "argvTruncated"), false));
	ck_assert_int_eq(jval_get(v, "subcommands").type, JT_ARRAY);
	ck_assert_uint_lt(json.len, 16384);
}
END_TEST

int main(void)
{
	return SUITE("command_text", plain_words_are_not_quoted, words_that_a_shell_would_expand_are_quoted,
		     control_characters_are_escaped, long_commands_are_truncated_with_a_note);
}
