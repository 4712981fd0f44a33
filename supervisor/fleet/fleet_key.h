#ifndef BAILIFF_FLEET_KEY_H
#define BAILIFF_FLEET_KEY_H

/*
 * Keys of submitters: nkeys of the kind "user", as NATS uses them. A public key is 56 characters that start with U, a
 * seed (the secret) 58 that start with SU: base32 of a prefix, 32 bytes of an Ed25519 key and a CRC-16. The same key
 * can authenticate a connection to the bus and sign a task.
 */

#include <stddef.h>

struct err;

#define FLEET_KEY_TEXT 57  /* a public key and NUL */
#define FLEET_SEED_TEXT 59 /* a seed and NUL */
#define FLEET_SIGNATURE 89 /* base64 of 64 bytes and NUL */

/* −1 if the text is not the public key of a user. */
int fleet_key_check(const char *text, struct err *e);
int fleet_key_new(char ret_seed[FLEET_SEED_TEXT], char ret_key[FLEET_KEY_TEXT], struct err *e);
/* The public key of a seed. */
int fleet_key_of(const char *seed, char ret_key[FLEET_KEY_TEXT], struct err *e);
int fleet_key_sign(const char *seed, const void *p, size_t n, char ret[FLEET_SIGNATURE], struct err *e);
/* 0: the signature was made over these bytes with the seed of this public key. */
int fleet_key_verify(const char *key, const void *p, size_t n, const char *signature, struct err *e);

#endif
