#ifndef BAILIFF_SUPERVISOR_HOST_SCREENS_H
#define BAILIFF_SUPERVISOR_HOST_SCREENS_H

/*
 * The screens of terminals: of every live one, because programs query their terminal and wait for the reply; and for a
 * while of ended ones that a client asked for.
 *
 * A screen is fed from the spool: live as output arrives, and from the beginning when it does not exist yet (after a
 * restart of the runtime, or when the process has ended). Resizes are events with the offset at which they happened, so
 * a rebuilt screen is the same. Feeding takes bounded turns on the loop, however much there is to catch up with; a
 * request is answered once the screen has seen all output that existed when it was made.
 *
 * Terminal queries (DA, DSR and so on): while a client displays the terminal to a person (`attended`), that client's
 * own terminal replies, because it gets the same bytes; otherwise the screen replies, a moment later. Queries from
 * before the screen caught up are not answered again.
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
	TAILQ_HEAD(, cached_screen) busy;  /* have output to be fed */
	TAILQ_HEAD(, cached_screen) ended; /* of ended processes, the one used last at the end */
	unsigned nended;
	struct event *turn;
	struct deadline_timer timer;
	char *scratch;
	bool tired, resting; /* the last turn used its whole budget; the next one is delayed */
	bool stopped;
	/* Whether a client displays this terminal to a person; NULL = never. */
	bool (*attended)(void *ctx, const char *process_id);
	void *attended_ctx;
};

void screens_init(struct screens *s, struct event_base *base, struct store *store, struct engine *engine,
		  struct host_ports *host, struct screen_limits limits);
void screens_done(struct screens *s); /* open requests are not answered */

/* ---- events of terminals ---- */

void screens_on_output(struct screens *s, const char *process_id, uint64_t size);
void screens_on_resize(struct screens *s, const char *process_id, uint64_t offset, unsigned rows, unsigned cols);
/* Its end is committed. */
void screens_on_ended(struct screens *s, const char *process_id);

/* ---- requests ---- */

enum screens_reason { SCREENS_NOW, SCREENS_TEXT, SCREENS_REGEX, SCREENS_IDLE, SCREENS_EXIT, SCREENS_TIMED_OUT };

/* e == NULL: `screen` is valid until the callback returns. */
typedef void (*screens_fn)(void *ctx, const struct err *e, const struct screen *screen, enum screens_reason why,
			   bool ended);

struct screens_request {
	const char *process_id;
	uint32_t viewer;     /* uid whose processes are visible, or VIEW_ANY_UID */
	uint64_t connection; /* 0 = none */
	bool wait;           /* for one of the conditions below; otherwise as soon as the screen has caught up */
	struct screen_condition condition; /* taken */
	bool exit;
	uint64_t idle_ms, timeout_ms; /* UINT64_MAX = none */
};

/* Answered exactly once, now or later. */
void screens_submit(struct screens *s, struct screens_request *r, screens_fn fn, void *ctx);
void screens_client_disconnected(struct screens *s, uint64_t connection);

#endif
