#ifndef BAILIFF_LOOP_LOOP_H
#define BAILIFF_LOOP_LOOP_H

/*
 * libevent with its failures noticed. The kernel can refuse to watch a descriptor (epoll_ctl: ENOMEM, ENOSPC). Nobody
 * would hear of that descriptor again: output would be missing, a request would never be answered. Nothing here can be
 * done about it, but every program of ours may end at any moment, and whoever takes over finds what was left: so the
 * program ends, and says why. Lint allows the functions that these stand for nowhere else.
 */

#include <event2/event.h>

struct bufferevent;

void loop_add(struct event *ev, const struct timeval *tv); /* event_add */
void loop_enable(struct bufferevent *bev, short what);     /* bufferevent_enable */
/* event_base_dispatch: 0 if it was told to leave or has nothing left to wait for; −1 if it could not go on (logged). */
int loop_run(struct event_base *base);

#endif
