#ifndef BAILIFF_ENGINE_PROCESS_REPORT_H
#define BAILIFF_ENGINE_PROCESS_REPORT_H

/*
 * What a call reports about a process that the shell tool has started: how it ended, or that it still runs, and the
 * output that no earlier call of the thread has reported. The report is the stored answer of the call,
 *
 *   {"processId", "running", "summary", "note"?, "outputs": [{"stream", "outputRef", "from", "to"}]}
 *
 * and names ranges of outputs, which never change. So its text (tool_result.c) is the same whenever it is written, and
 * where the next report begins follows from the stored answers; struct process has a copy of that.
 */

#include "runtime/view/view_documents.h"

struct buf;
struct engine;
struct process;
struct transaction;

/*
 * The process, if the shell tool started it in this thread. False for every other id, whether or not there is such a
 * process.
 */
bool process_report_find(struct engine *engine, const char *thread_id, const char *process_id, struct buf *text,
			 struct process_doc *ret);
/* Whether the shell tool started this live process in the thread. */
bool process_report_covers(struct process *p, const char *thread_id);
/* The command has ended; processes that it left in a session sandbox may still run. */
static inline bool process_report_ended(const struct process_doc *p)
{
	return p->endedAt || p->commandExited.type == JT_OBJECT;
}
/* Appends the report. Output that no event cites yet is cited by the transaction. `note` NULL = none. */
void process_report_write(struct engine *engine, const struct process_doc *p, const char *note, struct transaction *tx,
			  struct buf *ret);

#endif
