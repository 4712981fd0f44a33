#include "runtime/store/lz.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/store/lz_dictionary.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * Hand-written, because zlib needs 20 to 50 µs for a text of 500 bytes with a dictionary, and liblz4 would be another
 * dependency for the two functions below. A block is a series of
 *
 *   token          number of literals in its upper four bits, length of the match minus MATCH_MIN in its lower ones;
 *                  15 means that bytes follow that are added, up to and including the first that is not 255
 *   literals
 *   offset         16 bits, little endian: where the match begins, counted back from here
 *
 * and ends after literals. A match may begin in the dictionary, which precedes the text.
 */

#define DICTIONARY_LEN (sizeof(dictionary_text) - 1)
#define MATCH_MIN 4u
#define TOKEN_MAX 15u
#define HASH_BITS 13
#define SHORT_HASH_BITS 11 /* for texts up to SHORT_TEXT: the heads are cleared for each text */
#define SHORT_TEXT 2048u

_Static_assert(DICTIONARY_LEN + LZ_MAX <= UINT16_MAX, "a position is 16 bits");

static char dictionary[DICTIONARY_LEN];
static uint16_t dictionary_heads[1u << HASH_BITS]; /* position + 1 of the latest text with this hash; 0 = none */
static pthread_once_t dictionary_once = PTHREAD_ONCE_INIT;

static inline uint32_t load32(const char *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t hash_of(uint32_t v) { return v * 2654435761u >> (32 - HASH_BITS); }

static void prepare_dictionary(void)
{
	for (size_t i = 0; i < DICTIONARY_LEN; i++)
		dictionary[i] = dictionary_text[i] == '\'' ? '"' : dictionary_text[i];
	for (size_t i = 0; i + MATCH_MIN <= DICTIONARY_LEN; i++)
		dictionary_heads[hash_of(load32(dictionary + i))] = (uint16_t)(i + 1);
}

/* ---- writing ---- */

static inline uint8_t *put_length(uint8_t *at, size_t n)
{
	for (n -= TOKEN_MAX; n >= 255; n -= 255)
		*at++ = 255;
	*at++ = (uint8_t)n;
	return at;
}

/* The bytes of a sequence at most. */
static inline size_t sequence_max(size_t count, size_t match) { return 5 + count / 255 + count + match / 255; }

/* match = 0: the last literals. Most runs of literals are short: they are copied with bytes after them, if there are.
 */
static inline uint8_t *put_sequence(uint8_t *at, const uint8_t *end, const char *literals, size_t count, size_t match,
				    size_t offset)
{
	size_t more = match ? match - MATCH_MIN : 0;

	*at++ = (uint8_t)((count < TOKEN_MAX ? count : TOKEN_MAX) << 4 | (more < TOKEN_MAX ? more : TOKEN_MAX));
	if (count >= TOKEN_MAX)
		at = put_length(at, count);
	if (count <= 16 && count + match >= 16 && end - at >= 16)
		memcpy(at, literals, 16);
	else
		memcpy(at, literals, count);
	at += count;
	if (!match)
		return at;
	*at++ = (uint8_t)offset;
	*at++ = (uint8_t)(offset >> 8);
	return more >= TOKEN_MAX ? put_length(at, more) : at;
}

static inline size_t match_length(const char *a, const char *b, const char *end)
{
	const char *from = b;

	while (end - b >= 8) {
		uint64_t x, y;

		memcpy(&x, a, sizeof(x));
		memcpy(&y, b, sizeof(y));
		if (x != y)
			return (size_t)(b - from) + (size_t)__builtin_ctzll(le64toh(x ^ y)) / 8;
		a += 8, b += 8;
	}
	while (b < end && *a == *b)
		a++, b++;
	return (size_t)(b - from);
}

/* The longer of the latest matches in the text and in the dictionary; 0 = none. Remembers the position. */
static inline size_t find_match(const char *text, const char *at, const char *end, uint16_t *heads, unsigned shift,
				size_t *ret_offset)
{
	const uint32_t v = load32(at), hash = hash_of(v);
	const size_t here = (size_t)(at - text), there = heads[hash >> shift], word = dictionary_heads[hash];
	size_t length = 0;

	heads[hash >> shift] = (uint16_t)(here + 1);
	if (there && load32(text + there - 1) == v) {
		length = match_length(text + there - 1, at, end);
		*ret_offset = here - (there - 1);
	}
	if (word && load32(dictionary + word - 1) == v) {
		size_t left = DICTIONARY_LEN - (word - 1);
		size_t n = match_length(dictionary + word - 1, at, (size_t)(end - at) > left ? at + left : end);

		if (n > length) {
			length = n;
			*ret_offset = here + left;
		}
	}
	return length;
}

static inline void remember(const char *text, const char *at, uint16_t *heads, unsigned shift)
{
	heads[hash_of(load32(at)) >> shift] = (uint16_t)(at - text + 1);
}

/*
 * Greedy: takes the match that it finds. Of the positions inside a match only the second and the last but one are
 * remembered: with every eighth one it takes 15 % longer, and events and documents become larger by 1 %.
 */
size_t lz_compress(const void *text, size_t n, void *dst)
{
	const unsigned shift = n <= SHORT_TEXT ? HASH_BITS - SHORT_HASH_BITS : 0;
	uint16_t heads[1u << HASH_BITS]; /* position + 1 in the text */
	const char *at = text, *end = at + n, *literals = at;
	uint8_t *out = dst, *const out_end = out + n;

	if (n < LZ_MIN || n > LZ_MAX)
		return 0;
	pthread_once(&dictionary_once, prepare_dictionary);
	memset(heads, 0, sizeof(heads) >> shift);
	while (at + MATCH_MIN <= end) {
		size_t offset = 0, match = find_match(text, at, end, heads, shift, &offset);

		if (!match) {
			at++;
			continue;
		}
		if (sequence_max((size_t)(at - literals), match) > (size_t)(out_end - out))
			return 0;
		out = put_sequence(out, out_end, literals, (size_t)(at - literals), match, offset);
		if (at + match - 2 + MATCH_MIN <= end) {
			remember(text, at + match - 2, heads, shift);
			remember(text, at + 1, heads, shift);
		}
		at += match;
		literals = at;
	}
	if (literals < end) {
		if (sequence_max((size_t)(end - literals), 0) > (size_t)(out_end - out))
			return 0;
		out = put_sequence(out, out_end, literals, (size_t)(end - literals), 0, 0);
	}
	return out == out_end ? 0 : (size_t)(out - (uint8_t *)dst);
}

/* ---- reading ---- */

struct input {
	const uint8_t *at, *end;
};

/* The rest of a length after its four bits; false at the end of the input. `max` keeps it from overflowing. */
static bool get_length(struct input *in, size_t max, size_t *n)
{
	uint8_t v;

	if (*n < TOKEN_MAX)
		return true;
	do {
		if (in->at == in->end || *n > max)
			return false;
		v = *in->at++;
		*n += v;
	} while (v == 255);
	return true;
}

/* A match may begin in the dictionary and continue in the text, and may overlap what it produces. */
static bool copy_match(char *out, size_t done, size_t offset, size_t match)
{
	if (offset == 0 || offset > done + DICTIONARY_LEN)
		return false;
	if (offset > done) {
		size_t n = offset - done < match ? offset - done : match;

		memcpy(out + done, dictionary + DICTIONARY_LEN - (offset - done), n);
		done += n;
		match -= n;
	}
	if (match && offset >= match) {
		memcpy(out + done, out + done - offset, match);
		return true;
	}
	for (; match; match--, done++)
		out[done] = out[done - offset];
	return true;
}

static bool expand_block(struct input in, char *out, size_t n)
{
	size_t done = 0;

	while (in.at < in.end) {
		size_t count = *in.at >> 4, match = *in.at & 15, offset;

		in.at++;
		if (!get_length(&in, n, &count) || count > n - done || count > (size_t)(in.end - in.at))
			return false;
		memcpy(out + done, in.at, count);
		in.at += count;
		done += count;
		if (in.at == in.end)
			break;
		if (in.end - in.at < 2)
			return false;
		offset = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		if (!get_length(&in, n, &match) || match + MATCH_MIN > n - done ||
		    !copy_match(out, done, offset, match + MATCH_MIN))
			return false;
		done += match + MATCH_MIN;
	}
	return done == n;
}

int lz_expand(const void *p, size_t len, size_t n, struct buf *out, struct err *e)
{
	struct input in = { .at = p, .end = (const uint8_t *)p + len };

	if (n > LZ_MAX)
		return err_set(e, ERR_CORRUPT, "a compressed value of %zu bytes", n);
	pthread_once(&dictionary_once, prepare_dictionary);
	if (!expand_block(in, buf_reserve(out, n), n))
		return err_set(e, ERR_CORRUPT, "a compressed value is malformed");
	buf_extend(out, n);
	return 0;
}
