#ifndef BAILIFF_SANDBOX_LOOPBACK_H
#define BAILIFF_SANDBOX_LOOPBACK_H

/* Brings the loopback interface of the current network namespace up; in a new one it is down. −1 with errno. */
int loopback_up(void);

#endif
