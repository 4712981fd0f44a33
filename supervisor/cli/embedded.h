#ifndef BAILIFF_CLI_EMBEDDED_H
#define BAILIFF_CLI_EMBEDDED_H

struct err;
struct home;

/*
 * Starts a daemon for this user (`bailiffd --embedded`, found beside this program, else in PATH) and waits until it
 * says that it is ready. A failure is not the last word: another may have been started at the same moment, so the
 * caller still tries to connect and reports this error only if that fails too.
 */
int embedded_start(const struct home *h, struct err *e);

#endif
