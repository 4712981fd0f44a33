#ifndef BAILIFF_EVIDENCE_SINK_H
#define BAILIFF_EVIDENCE_SINK_H

/*
 * A file written in pieces, with its sha256. JSON is written with `w` into `buf`; sink_yield moves it to the file. The
 * descriptor stays the caller's. The hash is computed on the way, so the file is not read again. Order of calls:
 * sink_init, any number of writes, sink_seal at most once, sink_end, sink_done.
 */

#include "runtime/base/buf.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"

#include <stdint.h>

struct err;

struct sink {
	int fd;
	uint64_t bytes;
	struct buf buf;
	struct jw w;
	struct hash_sha256_stream *hash;
};

void sink_init(struct sink *k, int fd);
int sink_yield(struct sink *k, struct err *e); /* writes out when the buffer is large enough */
/*
 * Replaces the closing brace by a last member: the sha256 of every byte before it. The text after that hash is fixed,
 * so the seal covers the whole file.
 */
#define SINK_SEAL_BEGIN ",\"seal\":\"sha256:"
#define SINK_SEAL_END "\"}\n"
int sink_seal(struct sink *k, struct err *e);
int sink_end(struct sink *k, char ret_sha256[HASH_SHA256_TEXT], struct err *e);
void sink_done(struct sink *k);
#define sink_auto __attribute__((cleanup(sink_done)))

#endif
