#ifndef BAILIFF_CLI_SIGNATURE_H
#define BAILIFF_CLI_SIGNATURE_H

/*
 * Signatures of exported files with an operator's Ed25519 key (PEM, as written by `openssl genpkey -algorithm
 * ed25519`): 64 raw bytes over the whole file, in a separate file, so that openssl can verify them, too.
 *
 * A pack's own checksums show that it is complete and unchanged since the export; only a signature shows who exported
 * it.
 */

#include <stddef.h>

struct err;

#define SIGNATURE_BYTES 64u
#define SIGNATURE_SUFFIX ".sig"

/* The key is read before the export, so that an invalid key is reported first. */
struct signing_key;
int signing_key_read(const char *path, struct signing_key **ret, struct err *e);
void signing_key_free(struct signing_key **key); /* for cleanup; accepts NULL */
#define signing_key_auto __attribute__((cleanup(signing_key_free)))
int signing_key_sign(const struct signing_key *key, const void *p, size_t n, unsigned char ret[SIGNATURE_BYTES],
		     struct err *e);

/* 0: the signature is valid for this key; −1: it is not, or the key cannot be read (e). */
int signature_check(const char *public_key_path, const void *p, size_t n,
		    const unsigned char signature[SIGNATURE_BYTES], struct err *e);

#endif
