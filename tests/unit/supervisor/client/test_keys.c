#include "supervisor/client/keys.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "tests/unit/suite.h"

#include <string.h>

static const char *bytes_of(const char *text)
{
	static char bytes[64];
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_msg(keys_parse(text, &out, &e) == 0, "%s: %s", text, e.message);
	ck_assert_uint_lt(out.len, sizeof(bytes));
	memcpy(bytes, buf_cstr(&out), out.len + 1);
	return bytes;
}

START_TEST(test_key_names_are_parsed)
{
	ck_assert_str_eq(bytes_of("Enter"), "\r");
	ck_assert_str_eq(bytes_of("C-c"), "\003");
	ck_assert_str_eq(bytes_of("ctrl-]"), "\035");
	ck_assert_str_eq(bytes_of("ctrl-P,CTRL-q"), "\020\021");
	ck_assert_str_eq(bytes_of("M-x,up,Escape,:,w,q,Enter"), "\033x\033[A\033:wq\r");
	ck_assert_str_eq(bytes_of("M-C-a"), "\033\001");
	ck_assert_str_eq(bytes_of("ä,Comma,C-?,F5"), "ä,\177\033[15~");
}
END_TEST

START_TEST(test_invalid_key_names_are_rejected)
{
	static const char *const wrong[] = { "", "Entr", "C-", "C-Up", "a,", ",a", "ab", "ctrl-ä", "\xff" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		buf_auto struct buf out = BUF_INIT;
		struct err e = ERR_INIT;

		ck_assert_msg(keys_parse(wrong[i], &out, &e) < 0, "'%s' is accepted", wrong[i]);
		ck_assert_int_eq(e.code, ERR_INVALID);
	}
}
END_TEST

/* Input that is passed on, typed in one piece and key by key; a ! at its end: the sequence is complete. */
static const char *passed_on(const char *sequence, const char *typed)
{
	static char seen[2][128];

	for (int each = 0; each < 2; each++) {
		buf_auto struct buf out = BUF_INIT;
		struct keys_watch w;
		struct err e = ERR_INIT;
		bool done = false;

		ck_assert_int_eq(keys_watch_init(&w, sequence, &e), 0);
		if (!each)
			done = keys_watch_feed(&w, typed, strlen(typed), &out);
		for (size_t i = 0; each && typed[i] && !done; i++)
			done = keys_watch_feed(&w, typed + i, 1, &out);
		snprintf(seen[each], sizeof(seen[each]), "%s%s", buf_cstr(&out), done ? "!" : "");
	}
	ck_assert_str_eq(seen[0], seen[1]);
	return seen[0];
}

START_TEST(test_the_detach_sequence_is_detected)
{
	ck_assert_str_eq(passed_on("ctrl-]", "abc\035def"), "abc!");
	ck_assert_str_eq(passed_on("ctrl-]", "abc"), "abc");
	ck_assert_str_eq(passed_on("none", "abc\035def"), "abc\035def");
	ck_assert_str_eq(passed_on("", "\035"), "\035");
	ck_assert_str_eq(passed_on("ctrl-p,ctrl-q", "a\020b\020\021c"), "a\020b!");
	ck_assert_str_eq(passed_on("ctrl-p,ctrl-q", "\020\020\021"), "\020!");
	ck_assert_str_eq(passed_on("a,a,b", "aaaab"), "aa!");
	ck_assert_str_eq(passed_on("a,b,a,c", "ababac"), "ab!");
	ck_assert_str_eq(passed_on("a,b,a,c", "abax"), "abax");
	/* held back until the next key decides */
	ck_assert_str_eq(passed_on("ctrl-p,ctrl-q", "a\020"), "a");
}
END_TEST

/* As passed_on, in one piece: a sequence whose beginning was read alone is not recognized. */
static const char *passed_at_once(const char *sequence, const char *typed)
{
	static char seen[128];
	buf_auto struct buf out = BUF_INIT;
	struct keys_watch w;
	struct err e = ERR_INIT;

	ck_assert_int_eq(keys_watch_init(&w, sequence, &e), 0);
	bool done = keys_watch_feed(&w, typed, strlen(typed), &out);
	snprintf(seen, sizeof(seen), "%s%s", buf_cstr(&out), done ? "!" : "");
	return seen;
}

START_TEST(test_the_detach_sequence_is_detected_in_keyboard_protocols)
{
	ck_assert_str_eq(passed_at_once("ctrl-]", "a\033[93;5ub"), "a!");
	ck_assert_str_eq(passed_at_once("ctrl-]", "a\033[27;5;93~b"), "a!");
	ck_assert_str_eq(passed_at_once("ctrl-]", "\033[93;69u"), "!");      /* caps lock */
	ck_assert_str_eq(passed_at_once("ctrl-]", "\033[1098::93;5u"), "!"); /* a Cyrillic keyboard */
	ck_assert_str_eq(passed_at_once("ctrl-]", "\033[93;5:1u"), "!");     /* with types of events */
	ck_assert_str_eq(passed_at_once("ctrl-]", "\033[9\033[93;5u"), "\033[9!");
	ck_assert_str_eq(passed_at_once("alt-x", "\033[120;3u"), "!");
	ck_assert_str_eq(passed_at_once("F5", "\033[3~\033[15~"), "\033[3~!");
	ck_assert_str_eq(passed_at_once("ctrl-p,ctrl-q", "\033[112;5u\033[113;5u"), "!");
	ck_assert_str_eq(passed_at_once("ctrl-p,ctrl-q", "\033[112;5u\033[112;5:3u\033[57442;5u\033[113;5u"), "!");
	ck_assert_str_eq(passed_at_once("ctrl-p,ctrl-q", "\033[112;5u\033[112;5u\033[113;5u"), "\033[112;5u!");
	ck_assert_str_eq(passed_at_once("ctrl-p,ctrl-q", "\033[112;5u\033[112;5:3ux"), "\033[112;5u\033[112;5:3ux");
	/* other keys, and other sequences */
	ck_assert_str_eq(passed_at_once("ctrl-]", "\033[93u\033[93;9u\033[93;5:3u\033[93;5R\033[?93;5u"),
			 "\033[93u\033[93;9u\033[93;5:3u\033[93;5R\033[?93;5u");
	ck_assert_str_eq(passed_at_once("3", "\033[93;5:3u"), "\033[93;5:3u");
	ck_assert_str_eq(passed_at_once("none", "\033[93;5u"), "\033[93;5u");
	/* keys that begin like a sequence are not held back */
	ck_assert_str_eq(passed_on("ctrl-]", "\033"), "\033");
	ck_assert_str_eq(passed_on("ctrl-]", "\033["), "\033[");
	ck_assert_str_eq(passed_on("ctrl-]", "\033[A\033OP\033[200~x"), "\033[A\033OP\033[200~x");
}
END_TEST

START_TEST(test_pasted_text_does_not_detach)
{
	static const char paste[] = "a\033[200~b\035c\033[93;5u\033[200~\033\033[201~d";

	ck_assert_str_eq(passed_on("ctrl-]", paste), paste);
	ck_assert_str_eq(passed_on("ctrl-p,ctrl-q", "\020\033[200~\020\021\033[201~"),
			 "\020\033[200~\020\021\033[201~");
	ck_assert_str_eq(passed_on("ctrl-]", "\033[200~a\035\033[201~\035b"), "\033[200~a\035\033[201~!");
	ck_assert_str_eq(passed_on("ctrl-]", "\033[200~\033[201\035~\033[201~\035"),
			 "\033[200~\033[201\035~\033[201~!");
	ck_assert_str_eq(passed_on("~,.", "\033[200~.~.\033[201~~."), "\033[200~.~.\033[201~!");
	/* the program turns the marks off before the end */
	buf_auto struct buf out = BUF_INIT;
	struct keys_watch w;
	struct err e = ERR_INIT;
	ck_assert_int_eq(keys_watch_init(&w, "ctrl-]", &e), 0);
	ck_assert(!keys_watch_feed(&w, "\033[200~a\035\033[20", 12, &out));
	keys_watch_end_paste(&w);
	ck_assert(keys_watch_feed(&w, "\035", 1, &out));
}
END_TEST

int main(void)
{
	return SUITE("keys", test_the_detach_sequence_is_detected_in_keyboard_protocols, test_key_names_are_parsed,
		     test_invalid_key_names_are_rejected, test_the_detach_sequence_is_detected,
		     test_pasted_text_does_not_detach);
}
