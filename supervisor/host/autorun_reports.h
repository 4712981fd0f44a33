#ifndef BAILIFF_SUPERVISOR_HOST_AUTORUN_REPORTS_H
#define BAILIFF_SUPERVISOR_HOST_AUTORUN_REPORTS_H

/* The reports on autorun files of ended processes (sandbox/autorun_report.h), from the store. */

#include <stdbool.h>

struct buf;
struct err;
struct store;

/* 0; 1 = the process changed none; −1: its report is no longer available. */
int autorun_report_read(struct store *store, const char *process_id, struct buf *ret, struct err *e);
/* Whether nothing is known about the autorun files that it changed: they could not be compared. */
bool autorun_report_missing(struct store *store, const char *process_id);

#endif
