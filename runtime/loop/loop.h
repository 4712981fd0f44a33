#ifndef BAILIFF_LOOP_LOOP_H
#define BAILIFF_LOOP_LOOP_H

/*
 * libevent with error checks. The kernel can fail to watch a descriptor (epoll_ctl: ENOMEM, ENOSPC); then output would
 * be missing, or a request would never be answered. There is no way to handle that, but all programs of bailiff can be
 * killed at any time and are restarted without loss, so the program logs the reason and exits. Lint rejects the wrapped
 * functions everywhere else.
 */

#include <event2/event.h>

struct bufferevent;

void loop_add(struct event *ev, const struct timeval *tv); /* event_add */
void loop_enable(struct bufferevent *bev, short what);     /* bufferevent_enable */
/* event_base_dispatch: 0 if it was stopped or has nothing left to wait for; −1 on failure (logged). */
int loop_run(struct event_base *base);

#endif
