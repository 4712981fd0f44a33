#ifndef BAILIFF_BASE_BUILD_H
#define BAILIFF_BASE_BUILD_H

/*
 * How this program was built. The Makefile's stamp is compiled into each program's main file only, which stores it
 * here, so that the layers need not be compiled again for every commit.
 */

struct build {
	const char *id;   /* the commit; "unknown" without git */
	const char *date; /* of the commit, or SOURCE_DATE_EPOCH; "" = unknown */
	const char *type; /* release, debug, … */
};
extern struct build build;

#define BUILD_STAMP ((struct build){ BAILIFF_BUILD_ID, BAILIFF_BUILD_DATE, BAILIFF_BUILD_TYPE })

struct buf;
struct jval;
struct jw;

/* Members of an open object: version, build, date, type, compiler, architecture. */
void build_write(struct jw *w);
/* The output of `bailiffd --version --json` as text; `program` is the name on the first line. */
void build_text(const char *program, struct jval document, struct buf *out);

#endif
