#include "runtime/base/hash.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(sha256_of_known_texts_is_correct)
{
	char text[HASH_SHA256_TEXT];

	hash_sha256_text("", 0, text);
	ck_assert_str_eq(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	hash_sha256_text("abc", 3, text);
	ck_assert_str_eq(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

/* The values are stored on disk: the function must not change. */
START_TEST(hash64_is_xxh3)
{
	ck_assert_uint_eq(hash64("", 0, 0), 0x2d06800538d394c2ull);
	ck_assert_uint_eq(hash64(NULL, 0, 0), hash64("", 0, 0));
	ck_assert_uint_eq(hash64("abc", 3, 0), 0x78af5f94892f3950ull);
	ck_assert_uint_ne(hash64("abc", 3, 1), hash64("abc", 3, 0));
}
END_TEST

/* A stream always uses libmd; the hash of a whole text may use instructions of the processor. */
START_TEST(digests_equal_those_of_a_stream_for_every_length)
{
	char data[300], whole[HASH_SHA256_TEXT], stream[HASH_SHA256_TEXT];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 37 + 11);
	for (size_t n = 0; n <= sizeof(data); n++) {
		struct hash_sha256_stream *s = hash_sha256_stream_new();

		hash_sha256_stream_add(s, data, n);
		hash_sha256_stream_free(s, stream);
		hash_sha256_text(data, n, whole);
		ck_assert_msg(strcmp(whole, stream) == 0, "%zu bytes", n);
	}
}
END_TEST

START_TEST(a_stream_in_pieces_has_the_digest_of_the_whole)
{
	char data[5000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31 + i / 7);
	for (size_t piece = 1; piece < sizeof(data); piece = piece * 3 + 1) {
		struct hash_sha256_stream *s = hash_sha256_stream_new();
		char whole[HASH_SHA256_TEXT], pieces[HASH_SHA256_TEXT];

		for (size_t at = 0; at < sizeof(data); at += piece)
			hash_sha256_stream_add(s, data + at, at + piece > sizeof(data) ? sizeof(data) - at : piece);
		hash_sha256_stream_free(s, pieces);
		hash_sha256_text(data, sizeof(data), whole);
		ck_assert_str_eq(pieces, whole);
	}
}
END_TEST

int main(void)
{
	return SUITE("hash", sha256_of_known_texts_is_correct, hash64_is_xxh3,
		     digests_equal_those_of_a_stream_for_every_length, a_stream_in_pieces_has_the_digest_of_the_whole);
}
