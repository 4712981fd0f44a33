#ifndef BAILIFF_BASE_SHA256_BLOCKS_H
#define BAILIFF_BASE_SHA256_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether this CPU has the instructions; without them sha256_blocks may not be called. */
bool sha256_blocks_supported(void);
/* Adds whole blocks of 64 bytes to the state. */
void sha256_blocks(uint32_t state[8], const uint8_t *p, size_t blocks);

#endif
