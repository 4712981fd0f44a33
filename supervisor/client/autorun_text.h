#ifndef BAILIFF_CLIENT_AUTORUN_TEXT_H
#define BAILIFF_CLIENT_AUTORUN_TEXT_H

/* What a process says about autorun files ("autorun" of its end, of wait_process and get_process), in plain words. */

#include "runtime/base/jscan.h"

#include <stdbool.h>

struct buf;

/* Lines, each with its newline; nothing if there is nothing to say. True = files changed. */
bool autorun_describe(struct jval autorun, struct buf *out);

#endif
