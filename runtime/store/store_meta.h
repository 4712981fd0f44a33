#ifndef BAILIFF_STORE_STORE_META_H
#define BAILIFF_STORE_STORE_META_H

/* What a database says about itself (internal to runtime/store): its `meta` table, and where its log ends. */

struct db;
struct err;
struct store;

#define STORE_VERSION 5u
#define META_VERSION "version"    /* uint32_t */
#define META_RUNTIME "runtime_id" /* text */
#define META_FLOOR "floor"        /* struct tip: the last removed event */
#define META_MODELS "models"      /* uint8_t: 0 = a, 1 = b */
#define META_APPLIED "applied"    /* uint64_t: the newest group in the database (journal.h) */
#define META_USER "u:"            /* prefix of the names given to store_batch_meta */

/* Creates the tables and the runtime id of a new database. */
int store_meta_create(struct store *store, struct err *e);
/* Reads floor, newest event, newest group and active models, and checks the newest records. At open, and again on the
 * writer thread whenever it has reopened the environment. */
int store_meta_load(struct store *store, struct db *d, struct err *e);

#endif
