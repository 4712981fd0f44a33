#ifndef BAILIFF_SANDBOX_AUTORUN_REPORT_H
#define BAILIFF_SANDBOX_AUTORUN_REPORT_H

/*
 * The autorun files that a run changed (autorun.h), with their versions before and after: a head, then one record per
 * file.
 *
 * The init writes it and the runtime stores it. For a revert the runtime passes it to the spawner, which does not trust
 * the runtime: a report is sealed (HMAC-SHA-256) with a key that the spawner and the inits have and the runtime does
 * not. So a revert can only restore content that existed before a run of the same user.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct jw;

#define AUTORUN_REPORT_MAGIC 0x4e555242u /* "BRUN" */
#define AUTORUN_REPORT_VERSION 1u
#define AUTORUN_REPORT_BYTES_MAX (16u << 20)
#define AUTORUN_SEAL_BYTES 32u

/* X(NAME, "word on the wire", "in a sentence") */
#define AUTORUN_PARTIALS(X)                                                  \
	X(FOLDERS, "folders", "there are too many folders")                  \
	X(TIME, "time", "it took too long")                                  \
	X(FILES, "files", "there are too many such files")                   \
	X(SHUT, "shut", "a folder of the command's own could not be opened") \
	X(DEEP, "deep", "a path is too long")                                \
	X(FAILED, "failed", "the comparison could not be made")

#define AUTORUN_BIT(NAME, word, text) AUTORUN_PARTIAL_BIT_##NAME,
enum autorun_partial_bit { AUTORUN_PARTIALS(AUTORUN_BIT) AUTORUN_PARTIAL_COUNT };
#undef AUTORUN_BIT
#define AUTORUN_FLAG(NAME, word, text) AUTORUN_PARTIAL_##NAME = 1u << AUTORUN_PARTIAL_BIT_##NAME,
enum autorun_partial { AUTORUN_PARTIALS(AUTORUN_FLAG) };
#undef AUTORUN_FLAG
const char *autorun_partial_name(unsigned bit); /* NULL after the last */

enum autorun_type {
	AUTORUN_TYPE_NONE,
	AUTORUN_TYPE_FILE,
	AUTORUN_TYPE_FOLDER,
	AUTORUN_TYPE_LINK,
	AUTORUN_TYPE_OTHER,
	AUTORUN_TYPE_COUNT
};

struct autorun_head {
	uint32_t magic, version;
	uint32_t total_len;
	uint32_t count;                   /* number of records */
	uint32_t changed;                 /* number of changed files, including those without a record */
	uint32_t partial;                 /* enum autorun_partial: why not everything was examined; 0 = all was */
	uint32_t uid, gid;                /* owner of the run */
	uint8_t seal[AUTORUN_SEAL_BYTES]; /* over the whole report, with this field zero */
};

/* One version of a file. */
struct autorun_version {
	enum autorun_type type; /* NONE = did not exist */
	uint32_t mode;
	bool kept;        /* text is complete; otherwise a digest */
	const char *text; /* the content, or the link's target */
	size_t len;
};
struct autorun_record {
	const char *path;    /* absolute; not terminated */
	const char *program; /* which program executes it; not terminated */
	size_t path_len, program_len;
	struct autorun_version before, after;
};

/* "added", "modified" or "deleted". */
const char *autorun_record_change(const struct autorun_record *r);

/* Writing: begin, add …, end. A record that does not fit is only counted. */
void autorun_report_begin(struct buf *out);
void autorun_report_add(struct buf *out, const struct autorun_record *r);
void autorun_report_end(struct buf *out, uint32_t uid, uint32_t gid, uint32_t partial,
			const uint8_t key[AUTORUN_SEAL_BYTES]);

int autorun_report_check(const void *report, size_t len, struct err *e);
/* Call after the check. */
bool autorun_report_sealed(const void *report, const uint8_t key[AUTORUN_SEAL_BYTES]);
bool autorun_report_next(const void *report, size_t *at, struct autorun_record *ret);
/*
 * Writes it as members of the open object: changed, files (at most files_max), omitted, reportRef, examined,
 * notExamined. `h` may be NULL; `partial` as in the head; without `ref`, no reportRef.
 */
void autorun_report_members(const struct autorun_head *h, uint32_t partial, const char *ref, size_t files_max,
			    struct jw *w);

#endif
