#ifndef BAILIFF_SUPERVISOR_MODEL_TRANSFER_H
#define BAILIFF_SUPERVISOR_MODEL_TRANSFER_H

/*
 * One HTTP request with libcurl: sends the body, writes the response to a descriptor, and watches its own timers.
 * libcurl's limits do not fit a stream: its average speed notices a stalled one late, and it has no limit for the time
 * until the first byte.
 *
 * After a 401 the key is read again, once; if it is a different one, the request is sent once more and the first
 * response is dropped.
 */

#include "runtime/base/buf.h"
#include "supervisor/model/key_reader.h"

struct model_failure;
struct model_input;
struct redactor;

#define TRANSFER_HEAD_MAX (128u << 10)
#define TRANSFER_BODY_MAX (256u << 20)

/* Kept together so that the caller can lock and wipe them. */
struct transfer_secrets {
	struct key key[KEY_READER_READS]; /* the second is empty until the first was renewed */
	char line[KEY_MAX + 1024];        /* the header with the key */
};

struct transfer_options {
	const struct model_input *input;
	const struct buf *body;
	const struct buf *authorities; /* PEM; empty = the system's */
	struct transfer_secrets *secrets;
	struct key_reader *reader;
	struct redactor *redactor;
	int out;
};

/* 0: the response ended. −1: `ret` says why it failed; the head may have been written. */
int transfer_run(const struct transfer_options *o, struct model_failure *ret);

#endif
