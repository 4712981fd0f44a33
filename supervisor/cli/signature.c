/*
 * Only Ed25519 keys are accepted: one algorithm means that a verifier cannot be talked into a weaker one.
 *
 * libcrypto is loaded when a key is read: linked to bailiff, it would take 1.2 ms of CPU time of every start.
 */

#define ERR_STATE OPENSSL_ERR_STATE /* a type of libcrypto; conflicts with ours */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#undef ERR_STATE

#include "supervisor/cli/signature.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#define FUNCTIONS(X)            \
	X(PEM_read_PrivateKey)  \
	X(PEM_read_PUBKEY)      \
	X(EVP_PKEY_get_base_id) \
	X(EVP_PKEY_free)        \
	X(EVP_MD_CTX_new)       \
	X(EVP_MD_CTX_free)      \
	X(EVP_DigestSignInit) X(EVP_DigestSign) X(EVP_DigestVerifyInit) X(EVP_DigestVerify) X(ERR_clear_error)

#define MEMBER(name) __typeof__(&name) name;
static struct {
	FUNCTIONS(MEMBER)
} crypto;

#ifdef BAILIFF_STATIC
#define RESOLVE(name) crypto.name = name;
static int load_libcrypto(struct err *e)
{
	FUNCTIONS(RESOLVE)
	return 0;
}
#else
#define SONAME_OF(version) "libcrypto.so." #version
#define SONAME(version) SONAME_OF(version)
#define RESOLVE(name) found &= (crypto.name = (__typeof__(&name))dlsym(lib, #name)) != NULL;
static int load_libcrypto(struct err *e)
{
	void *lib = dlopen(SONAME(OPENSSL_VERSION_MAJOR), RTLD_NOW | RTLD_LOCAL);
	bool found = lib != NULL;

	if (found) {
		FUNCTIONS(RESOLVE)
	}
	return found ? 0 : err_set(e, ERR_UNAVAILABLE, "signatures need OpenSSL's libcrypto: %s", dlerror());
}
#endif

struct signing_key {
	EVP_PKEY *key;
};

/* NULL with the error. libcrypto's error queue is cleared: it is not used for messages. */
static EVP_PKEY *read_key(const char *path, bool private, struct err *e)
{
	FILE *f = fopen(path, "re");
	EVP_PKEY *key;

	if (f && load_libcrypto(e) < 0) {
		fclose(f);
		return NULL;
	}
	if (!f) {
		err_sys(e, errno, "open the key '%s'", path);
		return NULL;
	}
	/* An encrypted key makes libcrypto ask for its passphrase on the terminal. */
	key = private ? crypto.PEM_read_PrivateKey(f, NULL, NULL, NULL) : crypto.PEM_read_PUBKEY(f, NULL, NULL, NULL);
	fclose(f);
	crypto.ERR_clear_error();
	if (key && crypto.EVP_PKEY_get_base_id(key) == EVP_PKEY_ED25519)
		return key;
	err_set(e, ERR_INVALID, "'%s' is not %s Ed25519 key in PEM (openssl %s writes one)", path,
		private ? "a private" : "a public",
		private ? "genpkey -algorithm ed25519 -out KEY" : "pkey -in KEY -pubout -out PUBKEY");
	crypto.EVP_PKEY_free(key);
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
	crypto.EVP_PKEY_free((*key)->key);
	free(*key);
	*key = NULL;
}

int signing_key_sign(const struct signing_key *key, const void *p, size_t n, unsigned char ret[SIGNATURE_BYTES],
		     struct err *e)
{
	EVP_MD_CTX *ctx = crypto.EVP_MD_CTX_new();
	size_t len = SIGNATURE_BYTES;
	/* Ed25519 hashes by itself, so there is no digest to choose (NULL) and the whole text is passed at once. */
	bool ok = ctx && crypto.EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->key) == 1 &&
		  crypto.EVP_DigestSign(ctx, ret, &len, p, n) == 1 && len == SIGNATURE_BYTES;

	crypto.EVP_MD_CTX_free(ctx);
	crypto.ERR_clear_error();
	return ok ? 0 : err_set(e, ERR_INTERNAL, "libcrypto could not sign it");
}

int signature_check(const char *public_key_path, const void *p, size_t n,
		    const unsigned char signature[SIGNATURE_BYTES], struct err *e)
{
	EVP_PKEY *key = read_key(public_key_path, false, e);

	if (!key)
		return -1;
	EVP_MD_CTX *ctx = crypto.EVP_MD_CTX_new();
	bool ok = ctx && crypto.EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key) == 1 &&
		  crypto.EVP_DigestVerify(ctx, signature, SIGNATURE_BYTES, p, n) == 1;

	crypto.EVP_MD_CTX_free(ctx);
	crypto.EVP_PKEY_free(key);
	crypto.ERR_clear_error();
	return ok ? 0
		  : err_set(e, ERR_INVALID,
			    "the signature is not one of '%s' over this file: it was changed, or signed with another "
			    "key",
			    public_key_path);
}
