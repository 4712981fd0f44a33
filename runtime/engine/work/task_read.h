#ifndef BAILIFF_ENGINE_TASK_READ_H
#define BAILIFF_ENGINE_TASK_READ_H

/* Reads tasks from their documents, and the parameters and commands of requests about them. */

#include "runtime/engine/core/core.h"
#include "runtime/view/view_task.h"

#include <jansson.h>

#define TASK_JSON_MAX 8192u /* of one member that a client gives */
#define TASK_TEXT_MAX 8192u
#define TASK_OUTPUT_MAX (8u << 20) /* of its outputs, behind refs */
#define TASK_WORD_MAX 256u
#define TASK_REASON_MAX 1024u
#define TASK_COMMAND_INLINE 12288u
#define TASK_COMMAND_MAX (256u << 10)
#define TASK_DEPTH_MAX 64 /* levels of parents */

/* A task as decisions see it, including facts that are submitted and not durable yet. */
struct task {
	struct task_doc d;
	struct buf text;
	enum task_status status;
};
void task_done(struct task *t);
#define task_auto __attribute__((cleanup(task_done)))
#define TASK_INIT ((struct task){ 0 })
int task_read(struct engine *g, const char *id, struct task *ret, struct err *e); /* 0 found, 1 not found, −1 */
/* ERR_NOT_FOUND also if it belongs to another uid. */
int task_get(struct engine *g, const char *id, const struct caller *c, struct task *ret, struct err *e);

enum task_verb {
	TASK_VERB_UPDATE,
	TASK_VERB_START,
	TASK_VERB_PROGRESS,
	TASK_VERB_PAUSE,
	TASK_VERB_RESUME,
	TASK_VERB_CANCEL,
	TASK_VERB_RETRY,
	TASK_VERB_COMPLETE,
	TASK_VERB_FAIL,
	TASK_VERB_ARCHIVE,
	TASK_VERB_LINK,
	TASK_VERB_ADD,
	TASK_VERB_COUNT
};
/* ERR_STATE names the status and the verbs that are possible. TASK_VERB_ADD: a child, job, process or subagent. */
int task_may(const struct task *t, enum task_verb v, struct err *e);

/* The ids of a fact about the task. `c` gives the request's ids; NULL: the engine itself acts. */
struct scope task_scope(const struct task_doc *d, const struct caller *c);
static inline uint64_t engine_real(struct engine *g) { return g->o.ports->real_us(g->o.host); }

/* Parameters. */
const char *param_str(const json_t *params, const char *name);
int param_text(const json_t *params, const char *name, size_t most,
	       struct err *e);                                        /* not empty, at most `most` bytes */
struct json_value param_json(const json_t *params, const char *name); /* absent if it is not given */
struct opt_int param_int(const json_t *params, const char *name);
int param_small(const json_t *params, const char *name, size_t most,
		struct err *e); /* its JSON has at most `most` bytes */
/*
 * An array of objects; strings in it become {member: string}. NULL with an error if it is anything else. New
 * reference.
 */
json_t *param_refs(const json_t *params, const char *name, const char *member, struct err *e);
json_t *param_delivery(const json_t *params, const char *name,
		       struct err *e); /* {"state":…} or NULL (with or without error) */
bool delivery_is_open(struct jval delivery);

void param_hash(const json_t *params, char ret[65]); /* of the request's body */

/* The command of create_task, start_task or create_job: a JSON object for start_spec_of, or NULL. New reference. */
json_t *command_of(const json_t *params, const struct caller *c);
int command_check(struct engine *g, const json_t *command, const struct caller *c, struct err *e);
enum engine_role command_role(const json_t *command);
/*
 * The command as an event shows it: without the values of its variables. If it is long or has variables, the whole
 * command is stored behind a ref. NULL gives an empty result.
 */
struct command_fact {
	char *shown;
	char ref[ID_TEXT_MAX];
};
void command_fact_init(struct command_fact *c, const json_t *command, const struct scope *s, struct transaction *tx);
void command_fact_done(struct command_fact *c);
#define command_fact_auto __attribute__((cleanup(command_fact_done)))
static inline struct task_command_part command_part(const struct command_fact *c)
{
	return (struct task_command_part){ .command = json_from_text(c->shown), .commandRef = none_if_empty(c->ref) };
}
json_t *command_read(struct engine *g, struct jval command, struct jval ref, struct err *e);

#endif
