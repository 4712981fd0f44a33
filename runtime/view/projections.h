#ifndef BAILIFF_VIEW_PROJECTIONS_H
#define BAILIFF_VIEW_PROJECTIONS_H

/* The functions that projections.def lists. */

#include "runtime/view/projection.h"

#define PROJECT(type, document, ...)
#define PROJECT_WITH(type, document, function, ...) bool function(struct projection *p, void *doc);
#define PROJECT_BY(type, document, function) int function(struct models *m, const struct event_view *ev, struct err *e);
#include "runtime/view/projections.def"
#undef PROJECT
#undef PROJECT_WITH
#undef PROJECT_BY

#endif
