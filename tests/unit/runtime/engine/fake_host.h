#ifndef BAILIFF_TESTS_FAKE_HOST_H
#define BAILIFF_TESTS_FAKE_HOST_H

/*
 * A scripted host for the engine: the clock moves only when the test moves it, processes are only names, and output is
 * appended to real spool files in a temporary directory of the test.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"
#include "runtime/store/store.h"

#define FAKE_PROCESSES 512

struct fake_process {
	char id[PLAN_KEY_MAX];
	struct port_streams streams;
	int spool_fd[STREAM_COUNT];
	uint64_t size[STREAM_COUNT];
	uint32_t plan_flags;
	unsigned launches;
	bool gate_open, kill_tree, killed, released, reading_stopped, stdin_closed;
	unsigned unspilled;
	uint64_t signals; /* bit n − 1 */
	struct buf input;
	size_t stdin_room;
	struct port_line line; /* of its terminal */
	uint32_t rows, cols;   /* as last resized */
};

struct fake_host {
	char dir[128], spool[160];
	uint32_t reload_token; /* of the last request to load the policy files again */
	struct store *store;
	struct engine *engine;
	uint64_t boot_ns, wake_ns;
	uint64_t real_jump_us; /* by which the clock was set forward */
	struct fake_process processes[FAKE_PROCESSES];
	size_t nprocesses;
	bool nobody;                /* no client has connected */
	unsigned policies;          /* how often the policy of a directory was requested … */
	const char *policy_problem; /* … and why it is unknown; NULL: no problem */
	unsigned searches;          /* how often a repository was searched for … */
	bool searching;             /* … by another process, which a test answers (engine_on_policy) … */
	const char *search_problem; /* … and why it cannot be known; NULL: no problem */
	const char *abandoned[FAKE_PROCESSES];
	size_t nabandoned;
};

/* The last reply. */
struct fake_reply {
	unsigned count;
	int code; /* enum err_code; 0 = a result */
	struct buf json;
	char message[512];
};
void fake_reply_fn(void *ctx, const struct err *e, const char *json, size_t len);
struct jval fake_answer(const struct fake_reply *r, const char *path); /* a member of it */

#define FAKE_EXITED(code) ((code) << 8) /* the wait status of exit(code) */

void fake_open(struct fake_host *w);  /* a new directory, store and engine; recovered */
void fake_crash(struct fake_host *w); /* frees engine and store; directory and processes stay */
void fake_reopen(struct fake_host *w, const struct port_held *held, size_t ndeferred);
void fake_close(struct fake_host *w);
void fake_settle(struct fake_host *w);               /* commits everything queued and runs its callbacks */
void fake_advance(struct fake_host *w, uint64_t ms); /* moves the clock, ticking at every deadline on the way */

struct fake_process *fake_last(struct fake_host *w);
struct fake_process *fake_find(struct fake_host *w, const char *id);
void fake_print(struct fake_host *w, struct fake_process *p, int stream, const void *bytes, size_t n);
void fake_exit(struct fake_host *w, struct fake_process *p, int wait_status,
	       uint32_t cause); /* both streams end, too */

extern const struct caller fake_caller;
struct start_request fake_request(struct fake_host *w, const char *command_line);
/* A launched process, until EXECED; returns it. */
struct fake_process *fake_begin(struct fake_host *w, struct fake_process *p);
/* The same with a start before it. */
struct fake_process *fake_run(struct fake_host *w, const struct start_request *r, struct fake_reply *reply);

/* Names of all event types after sequence `after`, separated by spaces. */
char *fake_types(struct fake_host *w, uint64_t after);
/* The JSON of the last event of that type (malloc), or NULL. */
char *fake_event(struct fake_host *w, const char *type);
/* Whether its member is that text; its member as a number, or -1. */
bool fake_event_has(struct fake_host *w, const char *type, const char *path, const char *text);
int64_t fake_event_number(struct fake_host *w, const char *type, const char *path);
unsigned fake_count(struct fake_host *w, const char *type);
bool fake_verified(struct fake_host *w);

#endif
