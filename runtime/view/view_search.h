#ifndef BAILIFF_VIEW_SEARCH_H
#define BAILIFF_VIEW_SEARCH_H

/*
 * Searching the processes of the log. There is no index of texts: each call examines documents, newest first, for a
 * bounded time, and returns what it found with the place where the next call continues.
 */

#include "runtime/view/view_documents.h"

struct view_page;

struct view_search_query {
	const char *session_id; /* these are NULL if not given */
	const char *command;    /* part of the command, ASCII letters in either case */
	const char *output;     /* part of stdout, stderr or the terminal's output; likewise */
	const char *cwd;        /* the working directory, or one above it */
	const char *host;       /* part of a host that it reached or was denied */
	const char *path;       /* part of its command, its working directory or a path that it was denied or changed */
	const char *except;     /* the tool program: bailiff's helpers are left out */
	uint64_t since_ms, until_ms; /* when it was requested; 0, UINT64_MAX = any time */
	bool by_uid, by_exit, nonzero, denied;
	uint32_t uid;       /* with by_uid: the owner's */
	int64_t exit;       /* with by_exit */
	unsigned limit;     /* 1 … 1000 */
	const char *before; /* `next` of the previous page */
};

/* {"processes":[…],"next"?:…}, newest first; a page may have fewer than `limit` entries and still a `next`. */
int view_search(struct store *s, uint32_t uid, const struct view_search_query *q, struct buf *out, struct err *e);

/* The tool program, or something that the loop runs for itself. (view_query.c) */
bool view_process_is_helper(const struct process_doc *d, const char *program);
/* For a list of processes: the document with its outputs, without previews. (view_query.c) */
int view_write_listed_process(struct view_page *p, const void *doc, struct err *e);

#endif
