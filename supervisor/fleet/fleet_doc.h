#ifndef BAILIFF_FLEET_DOC_H
#define BAILIFF_FLEET_DOC_H

/*
 * The documents on the bus. Everything here comes from others: sizes, types, characters and members are checked before
 * anything is used, and an error names the member.
 *
 * - A *spec* is what a submitter wants to run. Its exact bytes are signed, so it travels as text inside of
 * - a *task* document, which the nodes update: state, claim, lease, result.
 * - A *request* is what a client asks of a node, or leaves in the task document (cancel, retry); signed as well.
 */

#include "supervisor/fleet/fleet_key.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct jw;

#define FLEET_ID_MAX 64u
#define FLEET_SPEC_MAX (128u << 10)
#define FLEET_TASK_MAX (512u << 10)
#define FLEET_REQUEST_MAX (16u << 10)
#define FLEET_CLOCK_MS 300000u /* by which the clocks of clients, nodes and the server may differ */
#define FLEET_LEASE_MS 30000u
#define FLEET_LEASE_MIN_MS 2000u
#define FLEET_LEASE_MAX_MS 600000u
#define FLEET_PRIORITY 5u
#define FLEET_CLASS_TEXT 17 /* 16 hex digits and NUL */
#define FLEET_REASON_MAX 512u
#define FLEET_ATTEMPTS_MAX 100u
#define FLEET_DEFAULT_NOT_AFTER_MS (7ull * 86400000u)
#define FLEET_NOT_AFTER_MAX_MS (30ull * 86400000u) /* after submittedAt; records of starts are kept for longer */

/* Ids of tasks, names of nodes and submitters: letters, digits, '_' and '-', so that they are tokens of a subject. */
bool fleet_id_valid(const char *s);

/* ---- what a task needs of a node ---- */

struct fleet_needs {
	const char *arch; /* as uname -m; NULL: any */
	uint64_t memory;  /* bytes */
	uint64_t cpus;
	const json_t *labels; /* name → value, or NULL */
};

/* {"arch":…,"memory":…,"cpus":…,"labels":{…}}; the pointers belong to `object`. */
int fleet_needs_read(const json_t *object, struct fleet_needs *ret, struct err *e);
/* The canonical text, which names a class: tasks with the same needs wait in the same queue. */
void fleet_needs_write(const struct fleet_needs *n, struct buf *ret);
void fleet_needs_class(const struct fleet_needs *n, char ret[FLEET_CLASS_TEXT]);

/* ---- specs ---- */

struct fleet_spec {
	json_t *root; /* owns everything below */
	const char *id;
	const json_t *command; /* array of strings; empty for an agent */
	const char *agent;     /* the objective of an agent, or NULL */
	const char *model;     /* of the agent: a name that the node has registered; or NULL */
	const char *title;     /* for people, or NULL */
	const char *profile;   /* or NULL */
	const char *cwd;       /* relative to the workspace, or NULL */
	const json_t *env;     /* name → value, or NULL */
	bool cow;
	struct fleet_needs needs;
	uint64_t priority, retries, retry_lost, deadline_ms, lease_ms;
	const json_t *near, *after; /* arrays of ids, or NULL */
	const char *bundle;         /* SHA-256 of the workspace's archive, or NULL */
	uint64_t bundle_bytes;
	const char *git_url, *git_ref;    /* or NULL */
	const char *group;                /* or NULL */
	uint64_t submitted_at, not_after; /* real time, ms */
};

int fleet_spec_parse(const char *text, size_t n, struct fleet_spec *ret, struct err *e);
void fleet_spec_done(struct fleet_spec *s); /* all zeroes is fine */

/* ---- signed text ---- */

struct fleet_signed {
	char *text; /* NULL: absent */
	char key[FLEET_KEY_TEXT];
	char signature[FLEET_SIGNATURE];
};

void fleet_signed_done(struct fleet_signed *s);
int fleet_signed_make(const char *seed, const char *text, struct fleet_signed *ret, struct err *e);
int fleet_signed_verify(const struct fleet_signed *s, struct err *e);
/* The envelope {"request":…,"key":…,"signature":…}. Parsing does not verify. */
void fleet_signed_write(const struct fleet_signed *s, struct buf *ret);
int fleet_signed_parse(const char *text, size_t n, struct fleet_signed *ret, struct err *e);

/* What is in the envelope: {"v":1,"verb":…,"task":…,"time":…,"nonce":…,"args":{…}}. */
struct fleet_request {
	json_t *root;
	const char *verb, *task, *nonce;
	uint64_t time;      /* real time, ms */
	const json_t *args; /* an object, or NULL */
};

int fleet_request_parse(const char *text, struct fleet_request *ret, struct err *e);
void fleet_request_done(struct fleet_request *r);
/* Time and nonce are made here; args_or_null: JSON text of an object. */
int fleet_request_make(const char *seed, const char *verb, const char *task, const char *args_or_null,
		       struct fleet_signed *ret, struct err *e);

/* ---- task documents ---- */

enum fleet_state {
	FLEET_QUEUED,
	FLEET_RUNNING,
	FLEET_COMPLETED,
	FLEET_FAILED,
	FLEET_CANCELLED,
	FLEET_LOST,
};
const char *fleet_state_name(enum fleet_state s);
int fleet_state_read(const json_t *root, enum fleet_state *ret, struct err *e); /* member "state" */
static inline bool fleet_state_ended(enum fleet_state s) { return s >= FLEET_COMPLETED; }

struct fleet_task {
	struct fleet_signed spec_text; /* spec, submitter, signature */
	struct fleet_spec spec;
	enum fleet_state state;
	char node[FLEET_ID_MAX + 1];       /* the last one that claimed it */
	char instance[FLEET_ID_MAX + 1];   /* … with this identity: another daemon may get its name */
	char claim[FLEET_ID_MAX + 1];      /* random: a claim is still the node's own if this is */
	uint64_t attempt;                  /* attempts begun */
	uint64_t token;                    /* revision of the claim; 0: the node has not written it yet */
	uint64_t claimed_at, heartbeat_at; /* real time, ms; for people: decisions use revisions and monotonic clocks */
	char *result;                      /* JSON text of an object, or NULL */
	char reason[FLEET_REASON_MAX];
	struct fleet_signed cancel, retry; /* requests; not verified by parsing */
	json_t *attempts;                  /* array: how earlier attempts ended; or NULL */
};

int fleet_task_parse(const char *text, size_t n, struct fleet_task *ret, struct err *e);
void fleet_task_write(const struct fleet_task *t, struct buf *ret);
void fleet_task_done(struct fleet_task *t);
/* A new one from a signed spec, which is taken over. */
int fleet_task_make(struct fleet_signed *spec_text, struct fleet_task *ret, struct err *e);
/* Verifies the spec's signature. */
int fleet_task_verify(const struct fleet_task *t, struct err *e);
/* Whether `cancel` is a request for this task, by its submitter or a key for which `is_operator` holds. */
bool fleet_task_cancelled(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key), void *ctx);
/* How many attempts a signed `retry` grants; 0 = there is none. */
uint64_t fleet_task_granted(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key), void *ctx);
/* How many attempts may begin: by the spec's retries, or by what is granted. */
uint64_t fleet_task_attempts_allowed(const struct fleet_task *t, bool (*is_operator)(void *ctx, const char *key),
				     void *ctx);
/* A member with a document's time as RFC 3339 text; nothing for 0 and for what has no such text. */
void fleet_write_time(struct jw *w, const char *name, uint64_t ms);
/* Adds the current attempt to `attempts`. exit_code < 0: unknown. */
void fleet_task_note_attempt(struct fleet_task *t, const char *state, int exit_code, const char *reason);

#endif
