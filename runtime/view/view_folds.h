#ifndef BAILIFF_VIEW_FOLDS_H
#define BAILIFF_VIEW_FOLDS_H

#include "runtime/event/event.h"
#include "runtime/view/view_shapes.h"

/*
 * A fold never fails because of what an event says: an id that is not known gets a fresh document, a member of an
 * unexpected type counts as absent, an event without the id it is about is passed over. −1 is the medium's.
 */
#define FOLD_LOG FOLD
#define FOLD(type, function) int function(struct models *m, const struct event_view *ev, struct err *e);
#include "runtime/view/view_folds.def"
#undef FOLD
#undef FOLD_LOG

#endif
