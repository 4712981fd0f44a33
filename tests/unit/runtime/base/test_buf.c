#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(a_buffer_grows_and_stays_terminated)
{
	buf_auto struct buf b = BUF_INIT;

	for (int i = 0; i < 10000; i++) {
		buf_byte(&b, (char)('a' + i % 26));
		ck_assert_int_eq(b.data[b.len], '\0');
	}
	ck_assert_uint_eq(b.len, 10000);
	for (int i = 0; i < 10000; i++)
		ck_assert_int_eq(b.data[i], 'a' + i % 26);
}
END_TEST

START_TEST(printf_allocates_what_it_needs)
{
	buf_auto struct buf b = BUF_INIT;
	mem_auto char *x = mem_zalloc(5001, 1);

	memset(x, 'x', 5000);
	buf_str(&b, "<");
	buf_printf(&b, "%s|%d", x, 42);
	buf_str(&b, ">");
	ck_assert_uint_eq(b.len, 5005);
	ck_assert_str_eq(b.data + 5000, "x|42>");
}
END_TEST

START_TEST(nul_bytes_are_kept)
{
	buf_auto struct buf b = BUF_INIT;

	buf_append(&b, "a\0b", 3);
	buf_append(&b, NULL, 0);
	ck_assert_uint_eq(b.len, 3);
	ck_assert_mem_eq(b.data, "a\0b", 4);
}
END_TEST

START_TEST(consume_drops_the_front)
{
	buf_auto struct buf b = BUF_INIT;

	buf_str(&b, "hello world");
	buf_consume(&b, 6);
	ck_assert_str_eq(buf_cstr(&b), "world");
	ck_assert_uint_eq(b.len, 5);
	buf_consume(&b, 99);
	ck_assert_uint_eq(b.len, 0);
	ck_assert_str_eq(buf_cstr(&b), "");
}
END_TEST

START_TEST(reserve_provides_space)
{
	buf_auto struct buf b = BUF_INIT;
	char *at = buf_reserve(&b, 1000);

	memset(at, 'z', 1000);
	b.len += 1000;
	buf_str(&b, "!");
	ck_assert_uint_eq(b.len, 1001);
	ck_assert_int_eq(b.data[999], 'z');
	ck_assert_str_eq(b.data + 1000, "!");
}
END_TEST

START_TEST(take_never_returns_null)
{
	struct buf b = BUF_INIT;
	char *s = buf_take(&b);

	ck_assert_str_eq(s, "");
	free(s);
	ck_assert_str_eq(buf_cstr(&b), "");
	buf_str(&b, "abc");
	s = buf_take(&b);
	ck_assert_str_eq(s, "abc");
	ck_assert_uint_eq(b.len, 0);
	ck_assert_ptr_null(b.data);
	free(s);
}
END_TEST

START_TEST(reset_keeps_the_memory)
{
	buf_auto struct buf b = BUF_INIT;
	char *data;

	buf_str(&b, "abc");
	data = b.data;
	buf_reset(&b);
	ck_assert_str_eq(buf_cstr(&b), "");
	buf_str(&b, "de");
	ck_assert_ptr_eq(b.data, data);
	ck_assert_str_eq(b.data, "de");
}
END_TEST

int main(void)
{
	return SUITE("buf", a_buffer_grows_and_stays_terminated, printf_allocates_what_it_needs, nul_bytes_are_kept,
		     consume_drops_the_front, reserve_provides_space, take_never_returns_null, reset_keeps_the_memory);
}
