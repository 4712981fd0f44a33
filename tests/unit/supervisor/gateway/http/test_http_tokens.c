#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_tokens.h"
#include "tests/unit/suite.h"

#include <string.h>

#define A "aaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbb"

static struct http_tokens *parsed(const char *text)
{
	struct http_tokens *t = NULL;
	struct err e = ERR_INIT;

	ck_assert_msg(http_tokens_parse(text, strlen(text), &t, &e) == 0, "%s", e.message);
	return t;
}

START_TEST(names_and_tokens_are_parsed)
{
	struct http_tokens *t = parsed("# who may come\n\n  alice\t" A "  \r\n" B);
	size_t n;
	const struct http_token *all = http_tokens_all(t, &n);

	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(all[0].name, "alice");
	ck_assert_str_eq(all[0].text, A);
	ck_assert_str_eq(all[1].name, "");
	ck_assert_str_eq(all[1].text, B);
	ck_assert_ptr_eq(http_tokens_named(t, ""), &all[1]);
	ck_assert_ptr_null(http_tokens_named(t, "bob"));
	ck_assert(strncmp(all[0].principal, "client:alice:", 13) == 0 && strncmp(all[1].principal, "token:", 6) == 0);
	http_tokens_free(t);
}
END_TEST

START_TEST(another_token_is_another_principal)
{
	struct http_tokens *one = parsed("alice " A), *other = parsed("alice " B), *moved = parsed("bob " A);

	ck_assert_str_ne(http_tokens_named(one, "alice")->principal, http_tokens_named(other, "alice")->principal);
	ck_assert_str_ne(http_tokens_named(one, "alice")->principal, http_tokens_named(moved, "bob")->principal);
	ck_assert_ptr_null(strstr(http_tokens_named(one, "alice")->principal, A));
	http_tokens_free(one);
	http_tokens_free(other);
	http_tokens_free(moved);
}
END_TEST

START_TEST(invalid_tokens_are_rejected_with_their_line)
{
	static const struct {
		const char *text, *words;
	} rows[] = {
		{ "short", "line 1: a token must have 16 to 1024" },
		{ A "\n" B, "line 2: only one token may be without a name" },
		{ "alice " A "\nalice " B, "line 2: duplicate client name" },
		{ "alice " A "\n#\nbob " A, "line 3: another client has this token" },
		{ "alice " A " " B, "line 1: expected TOKEN, or NAME TOKEN" },
		{ "al/ice " A, "line 1: a client's name" },
		{ "abcdefghijklmnopqrstuvwxyz1234567 " A, "line 1: a client's name" },
		{ A "\xc3\xa4", "characters that a header cannot have" },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		struct http_tokens *t = NULL;
		struct err e = ERR_INIT;

		ck_assert_int_eq(http_tokens_parse(rows[i].text, strlen(rows[i].text), &t, &e), -1);
		ck_assert_msg(strstr(e.message, rows[i].words), "'%s' instead of '%s'", e.message, rows[i].words);
		ck_assert_str_eq(e.field, "--token-file");
	}
}
END_TEST

START_TEST(the_number_of_tokens_is_limited)
{
	buf_auto struct buf text = BUF_INIT;
	struct http_tokens *t = NULL;
	struct err e = ERR_INIT;
	size_t n;

	for (int i = 0; i < 64; i++)
		buf_printf(&text, "c%d %016d\n", i, i);
	ck_assert_int_eq(http_tokens_parse(text.data, text.len, &t, &e), 0);
	http_tokens_all(t, &n);
	ck_assert_uint_eq(n, 64);
	http_tokens_free(t);
	buf_printf(&text, "last %016d\n", 64);
	ck_assert_int_eq(http_tokens_parse(text.data, text.len, &t, &e), -1);
	ck_assert_int_eq(http_tokens_parse("a\0b", 3, &t, &e), -1);
}
END_TEST

int main(void)
{
	return SUITE("http_tokens", names_and_tokens_are_parsed, another_token_is_another_principal,
		     invalid_tokens_are_rejected_with_their_line, the_number_of_tokens_is_limited);
}
