#ifndef BAILIFF_RUNTIME_BASE_SHA256_ARM_H
#define BAILIFF_RUNTIME_BASE_SHA256_ARM_H

/*
 * SHA-256 by the instructions that most 64-bit ARM processors have, about ten times as fast as libmd. A start hashes
 * its plan, its sandbox and its decision, together some kilobytes. libcrypto has this too, but loading it takes longer
 * than most commands run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false if this processor or compiler lacks them. */
bool sha256_arm(const void *p, size_t n, uint8_t out[32]);

#endif
