#ifndef BAILIFF_SUPERVISOR_HOST_SCREEN_HISTORY_H
#define BAILIFF_SUPERVISOR_HOST_SCREEN_HISTORY_H

/* What the log records of a terminal: everything, apart from its output, that is needed to draw its screen again. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct store;

struct screen_history {
	char process_id[72], output_ref[72];
	uint32_t uid;
	unsigned rows, cols; /* at the beginning */
	struct screen_resize_fact {
		uint64_t offset; /* of the output, when it happened */
		unsigned rows, cols;
	} * resizes;
	size_t nresizes;
	uint64_t bytes; /* according to committed events */
	uint64_t omitted_from, omitted_to;
	bool ended;
};

/* ERR_NOT_FOUND; ERR_STATE if it has no terminal; ERR_EXPIRED if its output or its events were removed. */
int screen_history_read(struct store *s, uint32_t viewer, const char *process_id, struct screen_history *ret,
			struct err *e);
void screen_history_resize(struct screen_history *h, uint64_t offset, unsigned rows, unsigned cols);
void screen_history_done(struct screen_history *h);

#endif
