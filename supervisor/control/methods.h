#ifndef BAILIFF_CONTROL_METHODS_H
#define BAILIFF_CONTROL_METHODS_H

/*
 * The handlers, declared from the table.
 *
 * A handler gets the checked parameters and returns
 *   a negative number   the request is rejected: `e` is sent
 *   CALL_REPLY          `out` holds the result, which is sent
 *   CALL_PENDING        the call is answered elsewhere, now or later (call_reply, call_fail);
 *                       the handler's `c` may be freed already
 *
 * request_run sends the first two, so that handlers need not. A handler runs while its client is connected, so
 * c->client is set; a callback that runs later must check it. The parameters live as long as the call: a callback may
 * use them.
 */

#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"

struct buf;
struct jw;

#define DECLARE_READING(name) \
	int method_##name(struct call *c, const struct name##_params *p, struct buf *out, struct err *e);
#define DECLARE_MUTATING(name) DECLARE_READING(name)
#define DECLARE_FORWARDED(name)

#define MEMBERS(name)
#define METHOD(name, role, kind, flags, summary) DECLARE_##kind(name)
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END

/*
 * Subscribes the call's client to the events of a process after `after`, and writes subscriptionId; writes nothing if
 * the client is gone or has too many subscriptions.
 */
void subscribe_to_process(struct call *c, const char *process_id, uint64_t after, struct jw *w);

#endif
