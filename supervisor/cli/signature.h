#ifndef BAILIFF_CLI_SIGNATURE_H
#define BAILIFF_CLI_SIGNATURE_H

/*
 * Signatures of exported files, with an operator's Ed25519 key (PEM, as `openssl genpkey -algorithm ed25519` writes
 * it): 64 raw bytes over the whole file, in a file of their own, so that openssl can check them, too.
 */

#include <stddef.h>

struct err;

#define SIGNATURE_BYTES 64u
#define SIGNATURE_SUFFIX ".sig"

/* The key is read before there is anything to sign: a wrong one is found out first. */
struct signing_key;
int signing_key_read(const char *path, struct signing_key **ret, struct err *e);
void signing_key_free(struct signing_key **key); /* for cleanup; of NULL: nothing */
#define signing_key_auto __attribute__((cleanup(signing_key_free)))
int signing_key_sign(const struct signing_key *key, const void *p, size_t n, unsigned char ret[SIGNATURE_BYTES],
		     struct err *e);

/* 0 = it is this key's; −1 = it is not, or the key cannot be read (e). */
int signature_check(const char *public_key_path, const void *p, size_t n,
		    const unsigned char signature[SIGNATURE_BYTES], struct err *e);

#endif
