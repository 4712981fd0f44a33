#ifndef BAILIFF_SUPERVISOR_HOST_SCREENS_H
#define BAILIFF_SUPERVISOR_HOST_SCREENS_H

/*
 * The screens of terminals: of every live one, because its programs may ask the terminal something and wait for the
 * answer; and for a while of those that have ended and were asked for.
 *
 * A screen is fed from the spool: live, as output comes, and from the beginning when there is none yet (after a restart
 * of the runtime, or when the process has ended). Resizes are facts with the offset at which they happened, so what is
 * made again is what was there. Feeding takes bounded turns on the loop, whatever there is to catch up with; requests
 * are answered when the screen has seen all that had come when they were made.
 *
 * Who answers a program's questions to its terminal (DA, DSR and so on): while a client shows the terminal to a person
 * (`attended`), that client's own terminal does, because it gets the same bytes; otherwise the screen does, a moment
 * later. What was asked before the screen had caught up is not answered again.
 */

#include "pty/screen.h"
#include "pty/screen_condition.h"
#include "runtime/base/strmap.h"
#include "supervisor/host/deadline_timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct engine;
struct err;
struct event;
struct event_base;
struct cached_screen;
struct store;
struct host_ports;

struct screens {
	struct store *store;
	struct engine *engine;
	struct host_ports *host;
	struct screen_limits limits;
	struct strmap by_id;               /* process id → struct cached_screen */
	TAILQ_HEAD(, cached_screen) busy;  /* have something to be fed */
	TAILQ_HEAD(, cached_screen) ended; /* of processes that ended, the one used last at the end */
	unsigned nended;
	struct event *turn;
	struct deadline_timer timer;
	char *scratch;
	bool tired, resting; /* the last turn took all its time; the next one is put off */
	bool stopped;
	/* Whether somebody sits before this terminal; NULL = nobody ever does. */
	bool (*attended)(void *ctx, const char *process_id);
	void *attended_ctx;
};

void screens_init(struct screens *s, struct event_base *base, struct store *store, struct engine *engine,
		  struct host_ports *host, struct screen_limits limits);
void screens_done(struct screens *s); /* nobody is answered any more */

/* ---- what happens to terminals ---- */

void screens_on_output(struct screens *s, const char *process_id, uint64_t size);
void screens_on_resize(struct screens *s, const char *process_id, uint64_t offset, unsigned rows, unsigned cols);
/* Its end is committed. */
void screens_on_ended(struct screens *s, const char *process_id);

/* ---- requests ---- */

enum screens_reason { SCREENS_NOW, SCREENS_TEXT, SCREENS_REGEX, SCREENS_IDLE, SCREENS_EXIT, SCREENS_TIMED_OUT };

/* e == NULL: this is the screen, until the callback returns. */
typedef void (*screens_fn)(void *ctx, const struct err *e, const struct screen *screen, enum screens_reason why,
			   bool ended);

struct screens_request {
	const char *process_id;
	uint32_t viewer;                   /* what the views are asked with */
	uint64_t connection;               /* 0 = none */
	bool wait;                         /* for any of what follows; otherwise as soon as it can be told */
	struct screen_condition condition; /* taken */
	bool exit;
	uint64_t idle_ms, timeout_ms; /* UINT64_MAX = none */
};

/* Answered exactly once, now or later. */
void screens_submit(struct screens *s, struct screens_request *r, screens_fn fn, void *ctx);
void screens_client_disconnected(struct screens *s, uint64_t connection);

#endif
