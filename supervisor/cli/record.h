#ifndef BAILIFF_CLI_RECORD_H
#define BAILIFF_CLI_RECORD_H

/* Verbs that are one request: lists as tables, records as they are, and the few words that a change is answered with. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cli;

struct record_column {
	const char *head;
	const char *path;      /* of the element's member, dotted */
	enum record_kind { RECORD_WORD, RECORD_ID, RECORD_STATUS, RECORD_AGO, RECORD_COUNT, RECORD_TEXT } kind; /* COUNT: of an array's elements */
};

/* The elements as a table, or as a JSON array. Returns the exit status. */
int record_table(struct jval list, const struct record_column *columns, size_t n, bool as_json);
/*
 * Calls and prints: with `as_json` the whole answer, else its member `shown` (NULL = all of it for people). `params` is a whole
 * object. Returns the exit status.
 */
int record_call(struct cli *c, const char *method, const struct buf *params, const char *shown, bool as_json);

/* "bailiff turn complete …": which of a noun's verbs, and how many arguments it takes after its name. */
struct record_verb {
	const char *name;
	size_t least, most;
	bool starts;           /* a daemon may be started for it even where there is no store */
	int (*run)(struct cli *c);
};
int record_dispatch(struct cli *c, const struct record_verb *of, size_t n);

#endif
