#ifndef BAILIFF_RUNTIME_BASE_SHA256_CPU_H
#define BAILIFF_RUNTIME_BASE_SHA256_CPU_H

/*
 * SHA-256 by instructions that most 64-bit ARM processors have (about ten times as fast as libmd there), and x86
 * processors since Zen, Goldmont and Ice Lake. A start hashes its plan and its environment, some kilobytes. libcrypto
 * has this too, but loading it takes longer than most commands run.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns false if this processor or compiler lacks them. */
bool sha256_cpu(const void *p, size_t n, uint8_t out[32]);

#endif
