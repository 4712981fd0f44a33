#ifndef BAILIFF_ENGINE_LOOP_PRIVATE_H
#define BAILIFF_ENGINE_LOOP_PRIVATE_H

/* What the files of loop/ share. Calls go from the top: loop.c, loop_compaction.c, loop_request.c, loop_stream.c,
 * loop_history.c, loop_context.c. */

#include "runtime/base/buf.h"
#include "runtime/base/strmap.h"
#include "runtime/dialect/dialect.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/loop/loop.h"
#include "runtime/engine/process/process_owner.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/event/id.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

#define LOOP_ITEMS_MAX (8u << 20) /* bytes of the items of one request */

/* A request whose process has not ended. Rebuilt from the log after a restart (loop_stream_of). */
struct loop_stream {
	char request_id[ID_SIZE], session_id[ID_SIZE], step_id[ID_SIZE];
	enum dialect dialect;
	struct dialect_decoder *decoder; /* NULL until the head has arrived */
	struct buf head;                 /* the first line of the program's output, while it is incomplete */
	uint64_t offset;                 /* bytes of the output that were decoded */
	uint64_t recorded;               /* deltas up to this offset are in the log */
	bool mute;                       /* decoding what is recorded already */
	struct buf text, reasoning;      /* deltas that are not recorded yet */
	uint64_t first_ns, started_ns;
	int status;  /* of the response; 0 = none yet */
	char *input; /* of the process, until it is started */
};

/*
 * The conversation of a thread up to and including a request, parsed. It only saves reading: it equals what the store
 * has, which never changes, and a rollback that takes back a part of it takes back its last request as well.
 */
struct loop_conversation {
	char thread_id[ID_SIZE], request_id[ID_SIZE]; /* "" = unused */
	json_t *items, *open;                         /* as in struct loop_history */
	size_t bytes;
	uint64_t used_ns;
};
#define LOOP_CONVERSATIONS 8u /* kept, those of the threads that were used last */

/* A tool as requests have it. */
struct loop_tool {
	json_t *row;
	size_t bytes; /* as text */
};

struct loop_state {
	struct strmap streams;   /* turn id → struct loop_stream */
	struct strmap waits;     /* turn id → struct loop_wait: the next attempt is delayed */
	struct strmap reading;   /* turn id: its instruction files are being read */
	struct strmap repeats;   /* turn id → number of equal answers that a person has been asked about */
	struct strmap held;      /* turn id: no client of its user has connected since the guard started */
	struct strmap recovered; /* turn id: an earlier runtime began it, and its calls may lack their hooks */
	struct loop_conversation kept[LOOP_CONVERSATIONS];
	struct loop_tool builtin[TOOL_MCP]; /* by enum tool_builtin; made when a request first has it */
};

struct loop_wait {
	uint64_t due_ns;
};
#define WAIT_MOST_MS 300000u /* a provider that asks for more time has failed */
/* The turn's next request is made after this time. */
void loop_wait(struct engine *engine, const char *turn_id, uint64_t ms);

/* ---- loop_context.c ---- */

/* The system prompt: the same text for every request of the turn. A replacement that cannot be read is an error. */
int loop_system_prompt(struct engine *engine, const struct turn_doc *t, struct buf *ret, struct err *e);
/* What the model should know about where it runs, as an item; NULL = nothing. New reference. */
json_t *loop_environment(struct engine *engine, const struct turn_doc *t);
/* [{"name","description","schema"}], the tools that the turn may call, and how long that is as text. New reference; its
 * elements are shared and must not be changed. */
json_t *loop_tools(struct engine *engine, const struct turn_doc *t, size_t *ret_bytes);
void loop_tools_forget(struct engine *engine);

/*
 * Starts to read the instruction files that apply to the turn; the turn continues when that has ended, with or without
 * success. False: it has ended.
 */
bool loop_read_instructions(struct engine *engine, const struct turn_doc *t);
/* Appends the context that hooks added: to this turn, and with `session` at the start of its session. */
void loop_add_hook_context(struct engine *engine, const struct turn_doc *t, bool session, json_t *items);
/* Appends them as an item, unless the conversation has the same text already. */
void loop_add_instructions(struct engine *engine, const struct turn_doc *t, const json_t *history, json_t *items);

/* ---- loop_history.c ---- */

int loop_request_read(struct engine *engine, const struct turn_doc *t, const char *request_id, struct buf *text,
		      struct model_request_doc *ret, struct err *e);
/* Its end is durable: what it has stored can be read. */
bool loop_request_has_ended(struct engine *engine, const struct turn_doc *t, const char *request_id);
/* A text that a request has stored, as JSON. New reference; NULL with e. */
json_t *loop_load(struct engine *engine, struct jval ref, struct err *e);
/* The conversation of the turn's thread up to its last request. The array is the caller's, its items are shared. */
struct loop_history {
	json_t *items;
	json_t *open; /* calls of the last answer without results: [{"toolCallId","id","name"}]; or NULL */
	size_t bytes; /* of the items, as they are stored */
	bool fresh;   /* the thread has no earlier request */
};
int loop_history_read(struct engine *engine, const struct turn_doc *t, struct loop_history *ret, struct err *e);
void loop_history_done(struct loop_history *h);
/* Frees the conversations that have not been used since `before`; returns when the next one is due, or UINT64_MAX. */
#define LOOP_KEPT_NS (300ull * 1000000000)
uint64_t loop_history_forget(struct engine *engine, uint64_t now);
#define loop_history_auto __attribute__((cleanup(loop_history_done)))
/* Appends the results of finished calls. Calls without a result are reported as interrupted. */
void loop_add_results(struct engine *engine, const json_t *calls, json_t *items);
/*
 * Appends a note for each process that runs as far as the conversation says, and has ended; with `all` also for those
 * that run. The note is part of the request from then on, so the model is told once.
 */
void loop_add_processes(struct engine *engine, const struct turn_doc *t, const json_t *history, bool all,
			json_t *items);
/* Appends the text and images of the turn, and the text of steering input from number `from` on. Returns how many there
 * are. */
int loop_add_input(struct engine *engine, const struct turn_doc *t, json_t *items, struct err *e);
uint64_t loop_add_steers(struct engine *engine, const struct turn_doc *t, json_t *items);
/* How many inputs of steer_turn are durable: others cannot be read yet. */
uint64_t loop_durable_steers(struct engine *engine, const struct turn_doc *t);

/* ---- loop_stream.c ---- */

extern const struct process_owner_ops loop_owner;
void loop_stream_free(struct loop_stream *s);
struct loop_stream *loop_stream_of(struct engine *engine, const char *turn_id); /* or NULL */
void loop_step_due(struct engine *engine, const char *turn_id);                 /* an effect: drives the turn on */

/* ---- loop_request.c ---- */

enum loop_purpose { LOOP_TURN, LOOP_COMPACTION };
/*
 * Begins a request: `items` (stolen) are what it adds to the conversation in `history`. The turn ends if the request is
 * not possible. False: it does not fit into the model's context, and nothing was done.
 */
struct loop_ask {
	enum loop_purpose purpose;
	json_t *items;
	const char *fallback; /* why the last model failed: another one is chosen; or NULL */
	unsigned attempt;     /* from 1, for the same items and model */
	uint64_t steered;     /* inputs of steer_turn that were sent, with this request */
	bool base;            /* the items replace the conversation so far */
	bool no_tools;
};
bool loop_request(struct engine *engine, const struct turn_doc *t, struct loop_history *history, struct loop_ask *ask);
/* ---- loop_compaction.c ---- */

/* Asks the model for a summary of the conversation. */
void loop_compact(struct engine *engine, const struct turn_doc *t, unsigned attempt);
/* `r`, such a request, has been answered: continues from the summary. */
void loop_compacted(struct engine *engine, const struct turn_doc *t, const struct model_request_doc *r);

/* Ends the turn as failed. */
void loop_fail(struct engine *engine, const struct turn_doc *t, const char *category, bool retryable, const char *fmt,
	       ...) __attribute__((format(printf, 5, 6)));

#endif
