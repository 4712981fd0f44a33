#ifndef BAILIFF_CONTROL_YIELD_H
#define BAILIFF_CONTROL_YIELD_H

/*
 * yieldMs: the call waits for a process and returns its output in the same answer. The answer comes when the
 * process has ended or the time is up. It then also has the current `status`, `exitCode`, `signal`, `durationMs`, and
 * `output`: for each stream a range as in read_output, at most maxOutputBytes long. Of more output it has the first and
 * the last half, the latter as `tail`, and `omittedBytes` counts the bytes in between.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct call;
struct err;

int yield_check(const struct call *c, struct err *e); /* yieldMs and maxOutputBytes are within their bounds */
bool yield_wanted(const struct call *c);
/*
 * Answers the call with `json`, at once or after yieldMs. processId is in it or a parameter of the call. `before` is
 * the process's document from before the request: `output` starts at its byte counts; NULL = at 0.
 */
void yield_reply(struct call *c, const struct buf *before, const char *json, size_t len);

#endif
