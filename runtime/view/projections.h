#ifndef BAILIFF_VIEW_PROJECTIONS_H
#define BAILIFF_VIEW_PROJECTIONS_H

#include "runtime/event/event.h"
#include "runtime/view/view_documents.h"

/*
 * A fold never fails because of what an event says: an id that is not known gets a fresh document, a member of an
 * unexpected type counts as absent, an event without the id it is about is passed over. −1 is the medium's.
 */
#define PROJECT_COMMITTED PROJECT
#define PROJECT(type, function) int function(struct models *m, const struct event_view *ev, struct err *e);
#include "runtime/view/projections.def"
#undef PROJECT
#undef PROJECT_COMMITTED

#endif
