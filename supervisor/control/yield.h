#ifndef BAILIFF_CONTROL_YIELD_H
#define BAILIFF_CONTROL_YIELD_H

/*
 * yieldMs: the caller gives a process some time and gets what it printed with the same answer. The answer comes when
 * the process has ended or the time is over, and then also has `status`, `exitCode`, `signal`, `durationMs` as they
 * are, and `output`: for each stream a range as read_output gives it, at most maxOutputBytes long. Of more than that
 * the first and the last half come, the second as `tail`, and `omittedBytes` counts what lies between.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct call;
struct err;

int yield_check(const struct call *c, struct err *e); /* yieldMs and maxOutputBytes are within their bounds */
bool yield_wanted(const struct call *c);
/*
 * Answers the call with `json` (an object with, or a call with the parameter, processId): at once, or after yieldMs.
 * `before` is the process's document from before, whose byte counts are where `output` begins; NULL = at 0.
 */
void yield_reply(struct call *c, const struct buf *before, const char *json, size_t len);

#endif
