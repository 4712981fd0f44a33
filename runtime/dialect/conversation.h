#ifndef BAILIFF_DIALECT_CONVERSATION_H
#define BAILIFF_DIALECT_CONVERSATION_H

/*
 * The canonical conversation: what was said, independent of any provider. A JSON array of items that is only appended
 * to:
 *
 *   {"type":"user","text":"…"}
 *   {"type":"image","ref":"…","mediaType":"image/png","data":"…"}   of the user; see below
 *   {"type":"note","text":"…"}                          from bailiff to the model; sent as user text
 *   {"type":"assistant","model":"PROVIDER/MODEL","dialect":"anthropic","blocks":[…],"interrupted":true?}
 *   {"type":"tool_result","id":"…","name":"shell","text":"…","isError":false}
 *
 * Blocks of an assistant item, in the order of the answer:
 *
 *   {"type":"reasoning","text":"…","raw":{…}?}
 *   {"type":"text","text":"…","raw":{…}?}
 *   {"type":"tool_call","id":"…","name":"shell","arguments":{…},"raw":{…}?}
 *
 * A call with "malformed" (why) has arguments that are not a JSON object; `arguments` is then empty, and it must not
 * run. One with "skipped": true has not run, because the answer had too many calls.
 *
 * An image is stored by its ref. `data`, its bytes as base64, is only there while a request is encoded.
 *
 * `raw` is what the provider needs back verbatim and only the dialect that wrote it reads it: a signature, encrypted
 * reasoning. It is sent only to the model that it came from (same `model` and `dialect`); reasoning without it is never
 * sent.
 *
 * struct conversation is the form that encoders read. It makes every request valid, whatever the items are, and depends
 * for each exchange only on the items up to the end of that exchange:
 *
 * - An exchange is one assistant message and the user message after it: the results of all its calls first, then the
 * text. The first exchange has no assistant message. Every exchange has something to say to the model: without results
 * and text encoders send CONVERSATION_FILLER, because several providers reject consecutive or trailing assistant
 * messages.
 * - A call without a result before the next assistant message gets CONVERSATION_NO_RESULT, or CONVERSATION_SKIPPED; a
 * result without a call, or a second one for the same call, is dropped.
 * - An assistant item without visible text and without calls is dropped.
 * - Ids are unique within the conversation and, like names, have only characters that every provider accepts.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define CONVERSATION_FILLER "Continue."
#define CONVERSATION_SKIPPED \
	"This call has not run, because the answer had too many calls. Make it again if it is still needed."
#define CONVERSATION_NO_RESULT "The call was interrupted and has no result. It may have run, fully or in part."
#define CONVERSATION_UNSEEN "An image was attached; this model cannot see it."
#define CONVERSATION_NAME_MAX 64

struct conversation_call {
	const json_t *block;
	const json_t *result; /* NULL = none: CONVERSATION_NO_RESULT */
	char id[CONVERSATION_NAME_MAX + 1];
	char name[CONVERSATION_NAME_MAX + 1];
};

struct conversation_exchange {
	const json_t *blocks;            /* of the assistant message; NULL in the first exchange */
	bool own;                        /* it is by the model that the request goes to */
	struct conversation_call *calls; /* one for each tool_call block, in this order */
	size_t ncalls, calls_cap;
	const json_t **texts; /* user, note and image items */
	size_t ntexts, texts_cap;
};

struct conversation {
	struct conversation_exchange *exchanges; /* at least one */
	size_t nexchanges, cap;
};

/* Borrows the items. Fails only if they are not a canonical conversation. */
int conversation_init(struct conversation *c, const json_t *items, const char *identity, const char *dialect,
		      struct err *e);
void conversation_done(struct conversation *c);

/* The text that the model gets as the result of a call. */
const char *conversation_result(const struct conversation_call *call, bool *ret_error);
bool conversation_is_image(const json_t *item);
/* Only white space, or nothing: several providers reject such text. */
bool conversation_blank(const char *text);

#endif
