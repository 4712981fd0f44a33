#include "supervisor/fleet/event_copy.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "supervisor/common/event_link.h"
#include "supervisor/fleet/fleet_port.h"

#include <stdio.h>
#include <string.h>

#define WAITING_MAX 10000u
#define EVENT_MAX (256u << 10)
#define SEND_MAX 50u /* in one turn of the loop: each is a round trip */

struct copied_event {
	struct copied_event *next;
	char session[FLEET_ID_MAX + 1];
	struct buf text;
};

int event_copy_begin(struct event_copy *c, struct event_link *link, const char *node, uint64_t after, struct err *e)
{
	struct buf buf_auto params = BUF_INIT, answer = BUF_INIT;
	struct jw w = jw_on(&params);
	static const char *const types[] = { "task.*", "process.*", "turn.*", "sandbox.*", "permission.*", "action.*" };

	*c = (struct event_copy){ 0 };
	c->last = &c->first;
	snprintf(c->node, sizeof(c->node), "%s", node);
	jw_obj(&w);
	jw_kuint(&w, "afterSequence", after);
	jw_kstrv(&w, "types", types, countof(types));
	jw_obj_end(&w);
	return event_link_call(link, "subscribe_events", &params, &answer, e);
}

bool event_copy_concerns_task(struct jval event)
{
	char type[64];

	jval_str(jval_get(event, "type"), type, sizeof(type));
	return strncmp(type, "task.", 5) == 0 && strcmp(type, "task.progress") != 0;
}

void event_copy_add(struct event_copy *c, struct jval event)
{
	char session[FLEET_ID_MAX + 1] = "", task[FLEET_ID_MAX + 1] = "";

	jval_str(jval_get(event, "sessionId"), session, sizeof(session));
	jval_str(jval_get(event, "taskId"), task, sizeof(task));
	if (!task[0] || !fleet_id_valid(session))
		return;
	if (c->waiting >= WAITING_MAX || event.len > EVENT_MAX) {
		c->dropped++;
		return;
	}
	struct copied_event *x = mem_zalloc(1, sizeof(*x));
	memcpy(x->session, session, sizeof(session));
	buf_append(&x->text, event.text, event.len);
	*c->last = x;
	c->last = &x->next;
	c->waiting++;
}

void event_copy_send(struct event_copy *c, struct fleet_port *p)
{
	for (unsigned i = 0; i < SEND_MAX && c->first && p->ops->connected(p); i++) {
		struct copied_event *x = c->first;
		struct err e = ERR_INIT;
		char subject[256];

		snprintf(subject, sizeof(subject), FLEET_EVENT_SUBJECT "%s.%s", c->node, x->session);
		if (p->ops->store(p, subject, x->text.data, x->text.len, &e) < 0)
			return; /* tried again */
		c->first = x->next;
		if (!c->first)
			c->last = &c->first;
		c->waiting--;
		buf_done(&x->text);
		free(x);
	}
	if (c->dropped && !c->first) {
		log_warning("%llu events were not copied to the bus; the log has them", (unsigned long long)c->dropped);
		c->dropped = 0;
	}
}
