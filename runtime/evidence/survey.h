#ifndef BAILIFF_EVIDENCE_SURVEY_H
#define BAILIFF_EVIDENCE_SURVEY_H

/*
 * One pass over a scope's events, and the members that every export has. The events are projected into fresh read
 * models (background_read_model), which are those of this scope at this sequence, independent of later events.
 *
 * Events of exports themselves (evidence.changed by the runtime, and output.spilled of the file) are skipped: otherwise
 * no export could be repeated with the same result.
 */

#include "runtime/base/buf.h"
#include "runtime/evidence/evidence.h"

struct jw;
struct sink;

enum survey_section {
#define SECTION(name, prefixes) SURVEY_##name,
#include "runtime/evidence/sections.def"
#undef SECTION
	SURVEY_SECTIONS
};

#define SURVEY_IDS 64u

struct survey_ids {
	char id[SURVEY_IDS][EVIDENCE_ID_MAX];
	size_t count;
	bool more;
};

/* The owner of the events from this sequence on. */
struct survey_owner {
	uint64_t from;
	uint32_t uid;
};

struct survey {
	struct background_read *reader; /* the events and read models, on a thread of its own */
	const struct evidence_scope *scope;
	uint64_t events, first, last, first_us, last_us;
	uint64_t count[EVENT_TYPE_COUNT];
	struct survey_ids thread, turn, task, run, trace, evidence;
	struct {
		uint64_t *sequence;
		size_t count, cap;
	} section[SURVEY_SECTIONS];
	struct {
		struct survey_owner *range;
		size_t count, cap;
	} owner;
	struct buf outcomes;                                   /* reported by verifiers and reviewers: `{…},…` */
	uint64_t denied;                                       /* side effects that the policy or a person denied */
	uint64_t turns, turns_traced, driven, models_separate; /* submitted turns, those with a trace; driven by
							       clients; model events without a request id */
	bool whole;                                            /* starts with the event that created the scope */
};

int survey_make(struct survey *s, struct background_read *a, const struct evidence_scope *scope, struct err *e);
void survey_done(struct survey *s);
#define survey_auto __attribute__((cleanup(survey_done)))

/* The events again. fn returns −1 to stop with its error. */
typedef int (*survey_event_fn)(void *ctx, const struct event_view *ev, struct err *e);
int survey_each(struct survey *s, survey_event_fn fn, void *ctx, struct err *e);
int survey_each_of_all(struct survey *s, survey_event_fn fn, void *ctx, struct err *e); /* including those of exports */

/* A fresh document; JT_NONE if there is none. Valid until the next lookup. */
struct jval survey_doc(struct survey *s, unsigned kind, const char *id);
/* fn returns −1 to stop with its error. */
typedef int (*survey_doc_fn)(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e);
int survey_docs(struct survey *s, unsigned kind, survey_doc_fn fn, void *ctx, struct err *e);

/* The first members of each file: "schemaVersion" … "runtimeCorrelation", "runtimeSummary". */
void survey_write_head(struct survey *s, enum evidence_kind kind, struct jw *w);
void survey_write_correlation(const struct survey *s, struct jw *w);
/* "signals" and "knownGaps". */
void survey_write_signals(const struct survey *s, struct jw *w);

/* The ids among `fields` that the event has. */
void survey_write_ids(struct jw *w, const struct event_view *ev, const enum id_field *fields, size_t n);
/* The type begins with one of the prefixes, which are separated by blanks. */
bool survey_type_matches(enum event_type type, const char *prefixes);
const char *survey_section_name(enum survey_section section);
/* Copies the named members that the document has. */
void survey_copy(struct jw *w, struct jval doc, const char *const *members, size_t n);

#endif
