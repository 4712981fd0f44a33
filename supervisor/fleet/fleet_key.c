/*
 * One algorithm and one kind of key, so that a verifier cannot be made to accept a weaker one. base32 is written here
 * because it is 20 lines and no library of this program offers it.
 */

#define ERR_STATE OPENSSL_ERR_STATE /* a type of libcrypto; conflicts with ours */
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#undef ERR_STATE

#include "supervisor/fleet/fleet_key.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

#define PREFIX_SEED (18u << 3) /* 'S' */
#define PREFIX_USER (20u << 3) /* 'U' */
#define KEY_BYTES 32u
#define SIGNATURE_BYTES 64u
#define PUBLIC_RAW (1 + KEY_BYTES + 2)
#define SEED_RAW (2 + KEY_BYTES + 2)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static void base32_encode(const uint8_t *p, size_t n, char *ret)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n; i++) {
		bits = bits << 8 | p[i];
		for (have += 8; have >= 5; have -= 5)
			*ret++ = alphabet[bits >> (have - 5) & 31];
	}
	if (have)
		*ret++ = alphabet[bits << (5 - have) & 31];
	*ret = '\0';
}

/* Exactly n bytes; −1 if the text has another length, a foreign character or bits left over that are not zero. */
static int base32_decode(const char *text, uint8_t *ret, size_t n)
{
	uint32_t bits = 0;
	unsigned have = 0;
	size_t at = 0;

	if (strnlen(text, 128) != (n * 8 + 4) / 5)
		return -1;
	for (; *text; text++) {
		const char *c = strchr(alphabet, *text);

		if (!c)
			return -1;
		bits = bits << 5 | (uint32_t)(c - alphabet);
		have += 5;
		if (have >= 8) {
			have -= 8;
			if (at == n)
				return -1;
			ret[at++] = (uint8_t)(bits >> have);
		}
	}
	return at == n && !(bits & ((1u << have) - 1)) ? 0 : -1;
}

/* CRC-16/XMODEM, stored with the low byte first. */
static uint16_t crc16(const uint8_t *p, size_t n)
{
	uint16_t crc = 0;

	for (size_t i = 0; i < n; i++) {
		crc ^= (uint16_t)(p[i] << 8);
		for (int bit = 0; bit < 8; bit++)
			crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
	}
	return crc;
}

static void append_crc(uint8_t *raw, size_t n)
{
	uint16_t crc = crc16(raw, n);

	raw[n] = (uint8_t)crc;
	raw[n + 1] = (uint8_t)(crc >> 8);
}

static bool crc_matches(const uint8_t *raw, size_t n) { return (raw[n] | raw[n + 1] << 8) == crc16(raw, n); }

static int decode_public(const char *text, uint8_t ret[KEY_BYTES], struct err *e)
{
	uint8_t raw[PUBLIC_RAW];

	if (base32_decode(text, raw, sizeof(raw)) < 0 || raw[0] != PREFIX_USER || !crc_matches(raw, 1 + KEY_BYTES))
		return err_set(e, ERR_INVALID, "not the public key of a user (56 characters that start with U)");
	memcpy(ret, raw + 1, KEY_BYTES);
	return 0;
}

static int decode_seed(const char *text, uint8_t ret[KEY_BYTES], struct err *e)
{
	uint8_t raw[SEED_RAW];
	/* Two prefixes share two bytes: 5 bits of S, then the 8 bits of the key's kind. */
	bool valid = base32_decode(text, raw, sizeof(raw)) == 0 && crc_matches(raw, 2 + KEY_BYTES) &&
		     (raw[0] & 0xf8) == PREFIX_SEED && ((raw[0] & 7) << 5 | raw[1] >> 3) == PREFIX_USER;

	if (valid)
		memcpy(ret, raw + 2, KEY_BYTES);
	OPENSSL_cleanse(raw, sizeof(raw));
	return valid ? 0 : err_set(e, ERR_INVALID, "not the seed of a user's key (58 characters that start with SU)");
}

static void encode_public(const uint8_t key[KEY_BYTES], char ret[FLEET_KEY_TEXT])
{
	uint8_t raw[PUBLIC_RAW] = { PREFIX_USER };

	memcpy(raw + 1, key, KEY_BYTES);
	append_crc(raw, 1 + KEY_BYTES);
	base32_encode(raw, sizeof(raw), ret);
}

static int public_of(const uint8_t seed[KEY_BYTES], char ret[FLEET_KEY_TEXT], struct err *e)
{
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KEY_BYTES);
	uint8_t public[KEY_BYTES];
	size_t n = sizeof(public);
	int ok = key && EVP_PKEY_get_raw_public_key(key, public, &n) == 1 && n == KEY_BYTES;

	EVP_PKEY_free(key);
	ERR_clear_error();
	if (!ok)
		return err_set(e, ERR_INTERNAL, "libcrypto cannot use an Ed25519 key");
	encode_public(public, ret);
	return 0;
}

int fleet_key_check(const char *text, struct err *e)
{
	uint8_t key[KEY_BYTES];

	return decode_public(text, key, e);
}

int fleet_key_of(const char *seed_text, char ret_key[FLEET_KEY_TEXT], struct err *e)
{
	uint8_t seed[KEY_BYTES];
	int r = decode_seed(seed_text, seed, e);

	if (r == 0)
		r = public_of(seed, ret_key, e);
	OPENSSL_cleanse(seed, sizeof(seed));
	return r;
}

int fleet_key_new(char ret_seed[FLEET_SEED_TEXT], char ret_key[FLEET_KEY_TEXT], struct err *e)
{
	uint8_t raw[SEED_RAW] = { PREFIX_SEED | PREFIX_USER >> 5, (uint8_t)(PREFIX_USER << 3) };

	if (getrandom(raw + 2, KEY_BYTES, 0) != KEY_BYTES)
		return err_sys(e, errno, "get random bytes for a key");
	int r = public_of(raw + 2, ret_key, e);
	if (r == 0) {
		append_crc(raw, 2 + KEY_BYTES);
		base32_encode(raw, sizeof(raw), ret_seed);
	}
	OPENSSL_cleanse(raw, sizeof(raw));
	return r;
}

int fleet_key_sign(const char *seed_text, const void *p, size_t n, char ret[FLEET_SIGNATURE], struct err *e)
{
	uint8_t seed[KEY_BYTES], signature[SIGNATURE_BYTES];
	size_t len = sizeof(signature);
	struct buf buf_auto text = BUF_INIT;

	if (decode_seed(seed_text, seed, e) < 0)
		return -1;
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int ok = key && ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
		 EVP_DigestSign(ctx, signature, &len, p, n) == 1 && len == sizeof(signature);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	ERR_clear_error();
	OPENSSL_cleanse(seed, sizeof(seed));
	if (!ok)
		return err_set(e, ERR_INTERNAL, "libcrypto cannot sign with an Ed25519 key");
	text_base64_encode(signature, sizeof(signature), &text);
	memcpy(ret, text.data, FLEET_SIGNATURE);
	return 0;
}

int fleet_key_verify(const char *key_text, const void *p, size_t n, const char *signature_text, struct err *e)
{
	uint8_t public[KEY_BYTES];
	struct buf buf_auto signature = BUF_INIT;

	if (decode_public(key_text, public, e) < 0)
		return -1;
	if (strnlen(signature_text, FLEET_SIGNATURE) != FLEET_SIGNATURE - 1 ||
	    text_base64_decode(signature_text, FLEET_SIGNATURE - 1, &signature) < 0 || signature.len != SIGNATURE_BYTES)
		return err_set(e, ERR_INVALID, "not a signature (88 characters of base64)");
	EVP_PKEY *key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, public, KEY_BYTES);
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	int ok = key && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		 EVP_DigestVerify(ctx, (const uint8_t *)signature.data, signature.len, p, n) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	ERR_clear_error();
	return ok ? 0
		  : err_set(e, ERR_NOT_ALLOWED, "the signature was not made over this text with the key %s", key_text);
}
