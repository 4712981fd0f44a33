#ifndef BAILIFF_GATEWAY_SESSION_REAPER_H
#define BAILIFF_GATEWAY_SESSION_REAPER_H

/*
 * A second process that outlives the gateway. A client's processes must survive the gateway's death, because the client
 * may start another gateway and continue (resumeSessionId); if it does not, something has to end them. The reaper
 * notices the death through a pipe, waits for a while, checks whether the session has a connected channel again, and if
 * not ends the session's processes.
 */

#include <stdint.h>

/* Forks the reaper. Returns the descriptor for the calls below, −1 on failure. */
int session_reaper_start(uint64_t linger_ms);
/* Sets the session whose processes the reaper terminates. */
void session_reaper_set_session(int fd, const char *session_id);
/* Everything has ended, and the daemon has confirmed it: the reaper exits. */
void session_reaper_cancel(int fd);

#endif
