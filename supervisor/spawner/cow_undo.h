#ifndef BAILIFF_SUPERVISOR_SPAWNER_COW_UNDO_H
#define BAILIFF_SUPERVISOR_SPAWNER_COW_UNDO_H

/*
 * What an apply replaces on the host is kept, so that it can be undone:
 *
 *   <process id>/undo/<number>/journal   a record for each host entry that the apply changes: its versions before and
 *                                        after, by type, mode, owner and digest
 *   <process id>/undo/<number>/<n>       the previous content of a file, or a copy of the previous link
 *
 * cow_keep.c writes a record before the host entry changes. At any moment, whatever was killed, each entry on the host
 * is therefore in its version before or after; cow_undo.c restores those that are not in the version before, and can be
 * repeated. cow_journal.c reads a journal and tells a torn end from damage. An entry in a third version was changed by
 * another program: a conflict, and nothing is undone.
 *
 * The newest apply is undone first. One that cannot be recorded removes all journals before it changes an entry, so
 * that none is undone beneath it. The folders belong to the run's owner, whose identity the helper has; only the
 * spawner and its children can enter the folder above them. What is kept is bounded; an apply that exceeds the bounds
 * takes place and cannot be undone, which its reply says.
 */

#include "runtime/base/hash.h"
#include "supervisor/spawner/cow.h"

#include <stdint.h>

#define UNDO_NAME "undo"
#define UNDO_JOURNAL "journal"
#define UNDO_DONE "done"              /* in the folder of all applies: the newest one was undone */
#define UNDO_APPLIES_MAX 8u           /* of a run; the oldest is forgotten */
#define UNDO_BYTES_MAX (256ull << 20) /* of previous content, for each apply */
#define UNDO_RECORDS_MAX 100000u

/* Modes that apply and undo set. */
#define COW_FILE_BITS 0777u
#define COW_FOLDER_BITS 01777u

/* A version of an entry. The digest is of a file's content, or of a link's target. */
struct undo_version {
	uint32_t type; /* S_IFMT bits of its mode; 0: no entry */
	uint32_t mode;
	uint32_t uid, gid;
	int64_t mtime_s, mtime_ns;
	uint64_t size;
	char digest[HASH_SHA256_TEXT + 7]; /* padded, so that the record has no gaps */
};

enum undo_kind {
	UNDO_CHANGE,
	UNDO_WRITING,   /* the entry of record `kept` is being written in place, by apply or undo */
	UNDO_WRITTEN,   /* ... that is complete */
	UNDO_SYNCED,    /* everything before this was synced */
	UNDO_END,       /* likewise, and the apply was completed */
	UNDO_CANCELLED, /* the changes of `cleared` records from `kept` on did not take place */
	UNDO_KIND_COUNT,
};

struct undo_record {
	uint64_t hash; /* of the rest and the path, bound to the offset */
	uint32_t kind, path_len;
	uint32_t root;          /* index of the write root */
	uint32_t kept;          /* name of the previous content */
	uint64_t cleared;       /* the old entry is removed before the new one is made, so that there may be none */
	uint64_t temporary;     /* of the name under which the new entry is written, by apply and undo */
	uint64_t device, inode; /* UNDO_WRITING: of the file */
	struct undo_version before, after;
};

enum undo_loss {
	UNDO_NOT_LOST,
	UNDO_LOST,        /* no journal is left */
	UNDO_LOSS_FAILED, /* one may be: the host must not change */
};

struct cow_undo {
	int all;             /* the directory of all applies of the run; −1: there is none */
	int folder, journal; /* of the current one; −1: nothing is kept */
	uint32_t number;     /* of the current one, once its folder is there; 0: none */
	uint32_t root;       /* the current write root */
	uint32_t records, kept;
	uint32_t cancelled; /* of the records */
	uint64_t bytes;
	uint64_t seed;    /* of temporary names */
	int unsynced[64]; /* files of previous contents */
	uint32_t nunsynced, kept_synced;
	bool written; /* something is to be synced */
	bool marked;  /* the journal has a mark since the last sync */
	int error;    /* errno: why this apply cannot be undone */
	enum undo_loss lost;
	/* Of an undo: */
	bool interrupted;    /* the apply was */
	bool damaged;        /* the journal is */
	uint64_t damaged_at; /* ... from this byte on */
};
#define COW_UNDO_INIT                                  \
	{                                              \
		.all = -1, .folder = -1, .journal = -1 \
	}

/* Before the helper assumes the owner's identity: opens the directory; creates it if `create`, and notes in u->error if
 * it cannot. −1 with errno. */
int cow_undo_open(struct cow_undo *u, int run, const struct cow_owner *owner, bool create);
/* The number of the newest apply that can be undone; 0: there is none. Counts them, and removes remains of others. */
uint32_t cow_undo_newest(const struct cow_undo *u, uint32_t *ret_count);
/* Durably. −1 with errno. */
int cow_undo_forget(const struct cow_undo *u, uint32_t number);
int cow_undo_enter(struct cow_undo *u, uint32_t number, bool create);

/*
 * The name under which an entry is written before it is renamed; `bits` 0: a random one. Those of an apply follow from
 * the path and the run, so that the next apply or undo finds what a killed one left.
 */
#define COW_TEMPORARY ".bailiff-" /* what its names begin with */
void cow_temporary_name(uint64_t bits, char out[64]);
uint64_t cow_temporary_bits(const struct cow_undo *u, const char *path);

/* Begins to keep what an apply replaces, and ends it. Failures are noted in u->error. */
void cow_keep_begin(struct cow_undo *u);
void cow_keep_end(struct cow_undo *u);
/*
 * Records an entry that is to be changed, in s->record. It must not change before cow_keep_sync; if it does not
 * change at all, cow_keep_cancel takes the record back.
 * −1 with errno: it must not change, because a journal that would be wrong then cannot be removed.
 */
int cow_keep(struct cow_walk *w, struct cow_spot *s);
int cow_keep_sync(struct cow_undo *u);
void cow_keep_cancel(struct cow_undo *u, const struct cow_spot *s);
/* The file of a record is about to be written in place, or was. −1 with errno. */
int cow_keep_writing(struct cow_undo *u, uint32_t record, const struct stat *st, bool written);
/* Removes temporary files of the newest apply, if it was interrupted. `hosts` as below. */
void cow_undo_clean(struct cow_undo *u, const int *hosts, uint32_t nroots);

/* Reads the version of an entry; with `copy` (or −1) also writes a file's content there, up to `room` bytes. */
int undo_version_read(int dir, const char *name, int copy, uint64_t room, struct undo_version *ret,
		      struct stat *ret_st);

struct cow_journal_end {
	uint64_t valid;   /* bytes of records that were read */
	bool interrupted; /* the apply was not completed; what follows the valid bytes are torn records */
	bool damaged;     /* what follows is damage: nothing can be undone by this journal */
};
/* `path` is not terminated. Non-zero: the record cannot be right. */
typedef int (*cow_journal_fn)(void *ctx, const struct undo_record *r, const char *path);
/* Calls fn for each record, in order. −1 with errno. */
int cow_journal_read(int fd, cow_journal_fn fn, void *ctx, struct cow_journal_end *ret);

/* Undoes the newest apply and lists what it did. `hosts`: the open write roots, by index; −1: no longer there. */
int cow_undo_newest_apply(struct cow_undo *u, struct cow_walk *w, const int *hosts, const char *const *paths,
			  uint32_t nroots);

#endif
