#ifndef BAILIFF_STORE_WORKER_H
#define BAILIFF_STORE_WORKER_H

/*
 * The worker thread (internal to runtime/store): long reads such as verify and backup, one after another, while the
 * writer keeps committing. It is started with the first job. Before each job everything acknowledged so far is settled.
 */

struct job;
struct store;

void worker_submit(struct store *store, struct job *j); /* loop thread */
void worker_stop(struct store *store);                  /* waits for the running job; the others stay in the queue */

#endif
