#ifndef BAILIFF_CLIENT_AUTORUN_TEXT_H
#define BAILIFF_CLIENT_AUTORUN_TEXT_H

/* The autorun report of a process ("autorun" of its end, of wait_process and get_process) as text. */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct buf;

/* Appends lines, each with its newline; none if there is nothing to report. True = files changed. */
bool autorun_describe(struct jval autorun, struct buf *out);

#endif
