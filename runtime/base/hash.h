#ifndef BAILIFF_BASE_HASH_H
#define BAILIFF_BASE_HASH_H

/*
 * hash64: XXH3, against accidental damage (records, spool chunks). It is fast and not cryptographic: the seed binds a
 * value to its place (a sequence, an offset), so that moved data does not match either.
 *
 * hash_sha256: against deliberate changes (plans, request bodies).
 */

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *p, size_t n, uint64_t seed);

#define HASH_SHA256_TEXT 65
void hash_sha256(const void *p, size_t n, uint8_t out[32]);
/* HMAC-SHA-256 with a key of up to 64 bytes. */
void hash_hmac_sha256(const void *key, size_t key_len, const void *p, size_t n, uint8_t out[32]);
void hash_sha256_text(const void *p, size_t n, char out[HASH_SHA256_TEXT]); /* lower-case hex */

/* The same for bytes that arrive in pieces. */
struct hash_sha256_stream;
struct hash_sha256_stream *hash_sha256_stream_new(void);
void hash_sha256_stream_add(struct hash_sha256_stream *s, const void *p, size_t n);
void hash_sha256_stream_so_far(const struct hash_sha256_stream *s, char ret[HASH_SHA256_TEXT]);
void hash_sha256_stream_free(struct hash_sha256_stream *s, char ret_or_null[HASH_SHA256_TEXT]);

#endif
