#ifndef BAILIFF_CONTROL_OUTPUT_RANGE_H
#define BAILIFF_CONTROL_OUTPUT_RANGE_H

/*
 * A range of an output as clients get it: {data, encoding, offset, nextOffset, totalBytes, eof, omittedBytes?}.
 *
 * Text is cut between characters; bytes that are not UTF-8 come as base64, and `encoding` says so. A range that starts
 * in the omitted part has no data, and its nextOffset is the end of that part.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct store;

#define OUTPUT_RANGE_MAX (1024u * 1024)

struct output_range {
	const char *ref;
	uint64_t offset;
	size_t length;       /* 1 … OUTPUT_RANGE_MAX */
	bool base64;         /* also for text */
	bool from_character; /* it may start inside a character: the rest of that one is skipped */
};

/* ERR_NOT_FOUND, ERR_EXPIRED, ERR_CORRUPT. */
int output_range_write(struct store *s, uint32_t uid, const struct output_range *o, struct buf *out, struct err *e);

#endif
