/*
 * Blocks of 8 KiB that are filled from the front. Objects are never freed alone; a parse of a megabyte makes many
 * thousand of them, and all of them live until the analysis of the command is done.
 *
 * An array that grows leaves its old copies behind. Together they are smaller than the final array, so memory stays
 * linear in the text.
 */

#include "policy/shell/arena.h"

#include "runtime/base/mem.h"

#include <stdalign.h>

#define BLOCK_SIZE 8160

struct block {
	struct block *next;
	size_t used, size;
	alignas(max_align_t) char data[];
};

struct shell_arena {
	struct block *block;
};

struct shell_arena *shell_arena_new(void) { return mem_zalloc(1, sizeof(struct shell_arena)); }

void shell_arena_free(struct shell_arena *a)
{
	if (!a)
		return;
	for (struct block *b = a->block, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(a);
}

void *shell_arena_alloc(struct shell_arena *a, size_t size)
{
	struct block *b = a->block;

	size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
	if (!b || b->size - b->used < size) {
		size_t capacity = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;
		struct block *fresh = mem_alloc(sizeof(*fresh) + capacity);

		fresh->used = 0;
		fresh->size = capacity;
		/* A large object gets a block of its own, behind the one that is being filled. */
		if (b && capacity == size) {
			fresh->next = b->next;
			b->next = fresh;
		} else {
			fresh->next = b;
			a->block = fresh;
		}
		b = fresh;
	}
	void *p = b->data + b->used;
	b->used += size;
	return memset(p, 0, size);
}

char *shell_arena_strndup(struct shell_arena *a, const char *s, size_t n)
{
	char *copy = shell_arena_alloc(a, n + 1);

	if (n)
		memcpy(copy, s, n);
	return copy;
}

char *shell_arena_strdup(struct shell_arena *a, const char *s) { return shell_arena_strndup(a, s, strlen(s)); }

void *shell_arena_grow(struct shell_arena *a, void *array, size_t count, size_t size)
{
	/* The capacity is 4, 8, 16, …, so the count alone shows when the array is full. */
	if (count != 0 && (count < 4 || (count & (count - 1))))
		return array;
	void *fresh = shell_arena_alloc(a, (count ? count * 2 : 4) * size);
	if (count)
		memcpy(fresh, array, count * size);
	return fresh;
}
