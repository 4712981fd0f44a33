#ifndef BAILIFF_ENGINE_JOB_PRIVATE_H
#define BAILIFF_ENGINE_JOB_PRIVATE_H

/*
 * What the files of jobs share.
 *
 * job.c       creates, cancels and ends jobs; time limits; recovery after a restart
 * job_item.c  items: dispatch, launch, ends; job_item_request.c, what clients request about one
 * job_read.c  documents, counts, the items as given, and the command of an item
 */

#include "runtime/engine/work/task_private.h"
#include "runtime/view/view_job.h"

struct job {
	struct job_doc d;
	struct buf text;
};
void job_done(struct job *j);
#define job_auto __attribute__((cleanup(job_done)))
#define JOB_INIT ((struct job){ 0 })
int job_read(struct engine *engine, const char *id, struct job *ret, struct err *e); /* 0 found, 1 not found, −1 */
int job_get(struct engine *engine, const char *id, const struct caller *c, struct job *ret, struct err *e);

struct scope job_scope(const struct job_doc *d, const struct caller *c);
/* The counts after one item changes from status `from` to `to` ("" = none). */
struct job_counts_part job_counts(const struct job_doc *d, const char *from, const char *to);
void job_progress_fact(struct engine *engine, const struct job *j, struct transaction *tx, const char *from,
		       const char *to, bool always);
void job_step_due(struct engine *engine, const char *job_id);

/* When a job is checked again whose task could not be read. */
#define JOB_UNREADABLE_US 10000000u

/* job_item.c */
void job_dispatch(struct engine *engine, const char *job_id);
void job_launch(struct engine *engine, const char *job_id);
void job_items_end(struct engine *engine, const char *job_id);    /* asks the processes of its items to end */
uint64_t job_next_due(struct engine *engine, const char *job_id); /* the next retry of an item; UINT64_MAX = none */

/* An item has a document from its first start on; before, it exists only in the pieces of its job. 1 = not found. */
int job_item_read(struct engine *engine, const char *job_id, const char *item_id, struct buf *text,
		  struct job_item_doc *ret, struct err *e);
/* The process adds its turn; NULL = none. */
struct scope job_item_scope(const struct job *j, const struct caller *c, const char *item, const struct process *p);
/* A client starts to work on the item. */
int job_item_claimed(const struct job *j, struct job_item_doc *d, struct transaction *tx, const struct caller *c,
		     struct err *e);
void job_item_failed(struct engine *engine, const struct job *j, const struct job_item_doc *d, struct transaction *tx,
		     const struct caller *c, const struct attempt_end *end);
/* The outcome of an item that did not fail. */
struct job_item_result {
	const char *status; /* completed; reported by a client */
	const struct process *process;
	const json_t *output_refs; /* without a process */
	const char *summary;
};
void job_item_completed(const struct job *j, const struct job_item_doc *d, struct transaction *tx,
			const struct caller *c, const struct job_item_result *r);

/* job_read.c */
json_t *job_item_command(struct engine *engine, const struct job *j, const json_t *given, uint64_t index,
			 struct err *e); /* the command to run for the item */
/* The item as the client gave it, found by index or by id. New reference, or NULL. */
json_t *job_item_given(struct engine *engine, const struct job *j, uint64_t index, struct err *e);
json_t *job_item_find(struct engine *engine, const struct job *j, const char *item_id, uint64_t *ret_index,
		      struct err *e);
bool job_item_supervised(const struct job *j, const json_t *given);

#endif
