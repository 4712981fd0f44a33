#ifndef BAILIFF_SUPERVISOR_HOST_AUTORUN_REPORTS_H
#define BAILIFF_SUPERVISOR_HOST_AUTORUN_REPORTS_H

/* The reports on autorun files of ended processes (sandbox/autorun_report.h), from the store. */

struct buf;
struct err;
struct store;

/* 0; 1 = the process changed none; −1: its report is no longer available. */
int autorun_report_read(struct store *store, const char *process_id, struct buf *ret, struct err *e);
/* How much is known about the autorun files that it changed: how many could be compared. */
enum autorun_known { AUTORUN_KNOWN_ALL, AUTORUN_KNOWN_PART, AUTORUN_KNOWN_NONE };
enum autorun_known autorun_report_known(struct store *store, const char *process_id);

#endif
