#ifndef BAILIFF_STORE_MEMORY_MODELS_H
#define BAILIFF_STORE_MEMORY_MODELS_H

/* Read models in memory only, to project events that come from a file. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct models;

struct models *memory_models_new(void);
void memory_models_free(struct models *m);
/* Calls fn for the documents of a kind in id order until it returns false. */
void memory_models_each(struct models *m, uint8_t kind,
			bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx);

#endif
