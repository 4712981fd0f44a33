#ifndef BAILIFF_CLI_NOUN_VERBS_H
#define BAILIFF_CLI_NOUN_VERBS_H

/* Verbs that are one request: lists are printed as tables, records in full, and changes as short confirmations. */

#include "runtime/base/jscan.h"

#include "supervisor/cli/id_lookup.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct cli;
struct jw;

struct noun_verb_column {
	const char *head;
	const char *path; /* dotted path of the element's member */
	/* COUNT: the number of an array's elements; LEFT: the time until then; IF: `other`, if it is true */
	enum noun_verb_column_kind {
		COLUMN_WORD,
		COLUMN_ID,
		COLUMN_STATUS,
		COLUMN_AGO,
		COLUMN_LEFT,
		COLUMN_COUNT,
		COLUMN_IF,
		COLUMN_TEXT
	} kind;
	const char *other; /* fallback if the member at path is missing; or NULL */
};

/* The elements as a table, or as a JSON array. Returns the exit status. */
int noun_verb_table(struct jval list, const struct noun_verb_column *columns, size_t n, bool as_json);
/*
 * Calls a method and prints: with `as_json` the whole reply, else its member `shown` (NULL: all of it, formatted).
 * `params` is a complete object. Returns the exit status.
 */
int noun_verb_call(struct cli *c, const char *method, const struct buf *params, const char *shown, bool as_json);

/* All pages of a list, printed as by noun_verb_table. `filter`: members of each request that select, or NULL. */
int noun_verb_list(struct cli *c, const char *method, const char *member, const struct buf *filter,
		   const struct noun_verb_column *columns, size_t n, bool as_json);
/*
 * Finds the element of a list whose id is `given`, or the only one whose id starts with it (with or without its "sub_")
 * or, from 4 characters on, ends with it. On failure prints why and returns −1.
 */
int noun_verb_find(struct cli *c, const char *method, const char *member, const char *id_member, const char *given,
		   struct buf *ret_element);

/* One record: for people, or as JSON. Returns the exit status. */
int noun_verb_show(struct jval record, bool as_json);
/* Writes an argument that must be a whole number as a member. 0, or the exit status after a usage error. */
int noun_verb_uint(struct cli *c, const char *name, const char *given, struct jw *w);
/* Options that become members of a request. */
struct noun_verb_member {
	int option;
	const char *name;
	enum noun_verb_member_kind {
		MEMBER_STRING,
		MEMBER_WORDS,
		MEMBER_FLAG,
		MEMBER_UINT,
		MEMBER_TIME
	} kind; /* WORDS: an array with the value of each occurrence */
};
/* 0, or the exit status after a usage error. */
int noun_verb_members(struct cli *c, const struct noun_verb_member *members, size_t n, struct jw *w);

/* A list in which abbreviated ids are looked up: its method, the result's member, and the member with the id. */
struct noun_verb_listing {
	const char *method, *member, *id;
};

/* A verb that is one request: its arguments and options become members of the parameters. */
struct noun_verb_request {
	const char *method;
	const char *shown;                       /* as for noun_verb_call */
	const char *args[2];                     /* the members for the arguments, in order; NULL: no more */
	const struct noun_verb_listing *listing; /* the first argument is an abbreviated id of this list; or NULL */
	bool uint;                               /* the second argument is a whole number */
	const struct noun_verb_member *members;
	size_t nmembers;
};

/* One verb of a noun ("bailiff turn complete …") and the number of arguments after its name. */
struct noun_verb {
	const char *name;
	size_t least, most;
	bool starts;               /* start a daemon for it even if there is no store */
	int (*run)(struct cli *c); /* or NULL: use `request` */
	struct noun_verb_request request;
};
/* A row that is a request with options; `second` and `listing` may be NULL. */
#define NOUN_REQUEST(name, least, most, method, shown, id, second, listing, uint, members)      \
	{                                                                                       \
		name, least, most, false, NULL,                                                 \
		{                                                                               \
			method, shown, { id, second }, listing, uint, members, countof(members) \
		}                                                                               \
	}
int noun_verb_run(struct cli *c, const struct noun_verb *of, size_t n);

/* The verb was given --json. */
bool noun_verb_as_json(const struct cli *c);
/* Resolves an abbreviated id. On failure prints why and returns −1. */
int noun_verb_id(struct cli *c, const struct noun_verb_listing *l, const char *given, char ret[ID_LOOKUP_MAX]);
/* `show ID`: prints the element of the list. Returns the exit status. */
int noun_verb_show_listed(struct cli *c, const struct noun_verb_listing *l);

#endif
