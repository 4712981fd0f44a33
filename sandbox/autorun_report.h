#ifndef BAILIFF_SANDBOX_AUTORUN_REPORT_H
#define BAILIFF_SANDBOX_AUTORUN_REPORT_H

/*
 * Which autorun files changed during a run (autorun.h), with what they were and what they became: a head, then one
 * record a file.
 *
 * The init writes it, the runtime keeps it, and if somebody asks for a revert the runtime gives it to the spawner,
 * which does not trust the runtime: a report is sealed (HMAC-SHA-256) with a key that spawner and inits have and the
 * runtime has not. So nothing is ever written back that was not there before a run of the same user's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

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
const char *autorun_partial_name(unsigned bit); /* NULL past the last */

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
	uint32_t count;                   /* records that follow */
	uint32_t changed;                 /* files that changed, also those without a record */
	uint32_t partial;                 /* enum autorun_partial: why not everything was examined; 0 = it was */
	uint32_t uid, gid;                /* whose run it was */
	uint8_t seal[AUTORUN_SEAL_BYTES]; /* over all of it, with this part zero */
};

/* What a file was, or is. */
struct autorun_version {
	enum autorun_type type; /* NONE = it did not exist */
	uint32_t mode;
	bool kept;        /* text is all of it; else a digest */
	const char *text; /* the content, or where the link leads */
	size_t len;
};
struct autorun_record {
	const char *path;    /* absolute; not terminated */
	const char *program; /* who executes it; not terminated */
	size_t path_len, program_len;
	struct autorun_version before, after;
};

/* "added", "modified" or "deleted". */
const char *autorun_record_change(const struct autorun_record *r);

/* Writing: begin, add …, end. A record that finds no room is only counted. */
void autorun_report_begin(struct buf *out);
void autorun_report_add(struct buf *out, const struct autorun_record *r);
void autorun_report_end(struct buf *out, uint32_t uid, uint32_t gid, uint32_t partial,
			const uint8_t key[AUTORUN_SEAL_BYTES]);

int autorun_report_check(const void *report, size_t len, struct err *e);
/* After the check. */
bool autorun_report_sealed(const void *report, const uint8_t key[AUTORUN_SEAL_BYTES]);
bool autorun_report_next(const void *report, size_t *at, struct autorun_record *ret);

#endif
