#ifndef BAILIFF_GATEWAY_SESSION_REAPER_H
#define BAILIFF_GATEWAY_SESSION_REAPER_H

/*
 * A second process of this program that outlives it. A client's processes must survive the death of the program that it
 * speaks to, because it may start another one and go on (resumeSessionId); but if it does not, nobody would ever end
 * them. The heir waits for that death: it holds the other end of a pipe. Then it gives the client some time, looks
 * whether its session has a connected channel again, and if not ends what runs in it.
 */

#include <stdint.h>

/* Forks; returns where it is told things, −1 if there is none. */
int session_reaper_start(uint64_t linger_ms);
/* The session whose processes it may have to end. */
void session_reaper_set_session(int fd, const char *session_id);
/* Everything was ended in order, and the daemon has said so. */
void session_reaper_cancel(int fd);

#endif
