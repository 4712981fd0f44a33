#ifndef BAILIFF_VIEW_JOB_H
#define BAILIFF_VIEW_JOB_H

/*
 * Jobs and their items. The items are stored behind refs (inputRefs of job.created, in pieces); an item has a document
 * from its first attempt on, so a job with many items is cheap until they start.
 */

#include "runtime/view/view_documents.h"

#define VIEW_JOB_ITEM_KEY_MAX (2 * ID_SIZE)
void view_job_item_key(const char *job_id, const char *item_id, char ret[VIEW_JOB_ITEM_KEY_MAX]);

#define VIEW_JOB_PIECE 256u       /* items in one of inputRefs */
#define VIEW_JOB_BYTES (8u << 20) /* all items of a job together */
/* The items of one piece as given: a JSON array of {itemId, …}. 0 or −1. */
int view_job_piece(struct store *s, const struct job_doc *d, uint64_t piece, struct buf *out, struct err *e);

struct jw;
/* The job with `limit` of its items from index `from` on; with nextCursor if there are more. */
int view_job(struct store *s, uint32_t uid, const char *job_id, uint64_t from, unsigned limit, struct buf *out,
	     struct err *e);
struct view_job_query {
	const char *session_id, *task_id, *status; /* NULL = any */
	bool live_only;
	unsigned limit;
	const char *cursor;
};
int view_jobs(struct store *s, uint32_t uid, const struct view_job_query *q, struct buf *out, struct err *e);
/* `"jobs":[…]`: the latest of a session, without their items; the job half of subagent_job_summary. */
int view_jobs_of_session(struct store *s, const char *session_id, struct jw *w, struct err *e); /* "jobs" */
/* The same objects, into an open array. */
int view_write_jobs_of_task(struct store *s, const char *task_id, struct jw *w, struct err *e);

#endif
