#ifndef BAILIFF_STORE_STORED_DOC_H
#define BAILIFF_STORE_STORED_DOC_H

/*
 * Documents in a table (internal to runtime/store): sealed values, JSON or, where that is smaller, compressed (lz.h).
 */

#include "runtime/store/db.h"

#include <stddef.h>

struct buf;
struct err;

/* 0 written; 1 nothing written, because the document is the same; −1. */
int stored_doc_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const char *json, size_t len, struct err *e);
/* *ret points into the value or, if it was compressed, into `space`, whose content it replaces. */
int stored_doc_open(const MDB_val *key, const MDB_val *value, struct buf *space, const char **ret, size_t *ret_len,
		    struct err *e);

/* Texts of documents that were compressed, or encoded for a reader. */
struct expanded;
struct buf *expanded_add(struct expanded **list); /* an empty one */
void expanded_release(struct expanded **list);
/*
 * 0 found, 1 not found, −1. The text is valid until expanded_release or, if it was not compressed, the transaction's
 * next write.
 */
int stored_doc_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, struct expanded **list, const char **ret, size_t *ret_len,
		   struct err *e);

#endif
