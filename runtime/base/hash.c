/*
 * hash64 is not keyed and detects damage only: a peer that can write the store can also write its checksums. SHA-256
 * is libmd's, or the processor's where that is faster (sha256_cpu.h).
 */

#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/sha256_cpu.h"

#include <assert.h>
#include <sha256.h>
#include <string.h>
#include <xxhash.h>

uint64_t hash64(const void *p, size_t n, uint64_t seed) { return XXH3_64bits_withSeed(n ? p : "", n, seed); }

void hash_sha256(const void *p, size_t n, uint8_t out[32])
{
	SHA2_CTX ctx;

	if (sha256_cpu(p, n, out))
		return;
	SHA256Init(&ctx);
	if (n)
		SHA256Update(&ctx, p, n);
	SHA256Final(out, &ctx);
}

void hash_hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[32])
{
	uint8_t inner[64] = { 0 }, outer[64], digest[32];
	SHA2_CTX ctx;

	assert(key_len <= sizeof inner);
	memcpy(inner, key, key_len);
	for (size_t i = 0; i < sizeof inner; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	SHA256Init(&ctx);
	SHA256Update(&ctx, inner, sizeof inner);
	SHA256Update(&ctx, p, n);
	SHA256Final(digest, &ctx);
	SHA256Init(&ctx);
	SHA256Update(&ctx, outer, sizeof outer);
	SHA256Update(&ctx, digest, sizeof digest);
	SHA256Final(out, &ctx);
}

static void digest_text(const uint8_t digest[32], char out[HASH_SHA256_TEXT])
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < 32; i++) {
		out[2 * i] = hex[digest[i] >> 4];
		out[2 * i + 1] = hex[digest[i] & 15];
	}
	out[HASH_SHA256_TEXT - 1] = '\0';
}

void hash_sha256_text(const void *p, size_t n, char out[HASH_SHA256_TEXT])
{
	uint8_t digest[32];

	hash_sha256(p, n, digest);
	digest_text(digest, out);
}

struct hash_sha256_stream {
	SHA2_CTX ctx;
};

struct hash_sha256_stream *hash_sha256_stream_new(void)
{
	struct hash_sha256_stream *s = mem_alloc(sizeof(*s));

	SHA256Init(&s->ctx);
	return s;
}

void hash_sha256_stream_add(struct hash_sha256_stream *s, const void *p, size_t n)
{
	if (n)
		SHA256Update(&s->ctx, p, n);
}

/* On a copy of the state, so that the stream can continue. */
void hash_sha256_stream_so_far(const struct hash_sha256_stream *s, char ret[HASH_SHA256_TEXT])
{
	SHA2_CTX copy = s->ctx;
	uint8_t digest[32];

	SHA256Final(digest, &copy);
	digest_text(digest, ret);
}

void hash_sha256_stream_free(struct hash_sha256_stream *s, char ret_or_null[HASH_SHA256_TEXT])
{
	uint8_t digest[32];

	if (!s)
		return;
	SHA256Final(digest, &s->ctx);
	if (ret_or_null)
		digest_text(digest, ret_or_null);
	free(s);
}
