/* Only Ed25519 keys are accepted: one algorithm means that a verifier cannot be talked into a weaker one. */

#define ERR_STATE OPENSSL_ERR_STATE /* a type of libcrypto; conflicts with ours */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#undef ERR_STATE

#include "supervisor/cli/signature.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

struct signing_key {
	EVP_PKEY *key;
};

/* NULL with the error. libcrypto's error queue is cleared: it is not used for messages. */
static EVP_PKEY *read_key(const char *path, bool private, struct err *e)
{
	FILE *f = fopen(path, "re");
	EVP_PKEY *key;

	if (!f) {
		err_sys(e, errno, "open the key '%s'", path);
		return NULL;
	}
	/* An encrypted key makes libcrypto ask for its passphrase on the terminal. */
	key = private ? PEM_read_PrivateKey(f, NULL, NULL, NULL) : PEM_read_PUBKEY(f, NULL, NULL, NULL);
	fclose(f);
	ERR_clear_error();
	if (key && EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519)
		return key;
	err_set(e, ERR_INVALID, "'%s' is not %s Ed25519 key in PEM (openssl %s writes one)", path,
		private ? "a private" : "a public",
		private ? "genpkey -algorithm ed25519 -out KEY" : "pkey -in KEY -pubout -out PUBKEY");
	EVP_PKEY_free(key);
	return NULL;
}

int signing_key_read(const char *path, struct signing_key **ret, struct err *e)
{
	EVP_PKEY *key = read_key(path, true, e);

	if (!key)
		return -1;
	*ret = mem_zalloc(1, sizeof **ret);
	(*ret)->key = key;
	return 0;
}

void signing_key_free(struct signing_key **key)
{
	if (!*key)
		return;
	EVP_PKEY_free((*key)->key);
	free(*key);
	*key = NULL;
}

int signing_key_sign(const struct signing_key *key, const void *p, size_t n, unsigned char ret[SIGNATURE_BYTES],
		     struct err *e)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = SIGNATURE_BYTES;
	/* Ed25519 hashes by itself, so there is no digest to choose (NULL) and the whole text is passed at once. */
	bool ok = ctx && EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->key) == 1 &&
		  EVP_DigestSign(ctx, ret, &len, p, n) == 1 && len == SIGNATURE_BYTES;

	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return ok ? 0 : err_set(e, ERR_INTERNAL, "libcrypto could not sign it");
}

int signature_check(const char *public_key_path, const void *p, size_t n,
		    const unsigned char signature[SIGNATURE_BYTES], struct err *e)
{
	EVP_PKEY *key = read_key(public_key_path, false, e);
	EVP_MD_CTX *ctx = key ? EVP_MD_CTX_new() : NULL;
	bool ok = ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		  EVP_DigestVerify(ctx, signature, SIGNATURE_BYTES, p, n) == 1;

	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	ERR_clear_error();
	if (!key)
		return -1;
	return ok ? 0
		  : err_set(e, ERR_INVALID,
			    "the signature is not one of '%s' over this file: it was changed, or signed with another "
			    "key",
			    public_key_path);
}
