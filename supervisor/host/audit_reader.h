#ifndef BAILIFF_SUPERVISOR_HOST_AUDIT_READER_H
#define BAILIFF_SUPERVISOR_HOST_AUDIT_READER_H

/*
 * Reads the kernel's audit records and reports violations to the engine. A sandbox is identified by its audit session.
 *
 * A mark proves that all violations of a process have arrived: after the process is dead, the spawner writes the mark
 * into the same queue, behind the records that exist then.
 *
 * The order for one process: audit_reader_add with its READY, audit_reader_drain when it has ended, then
 * host_ports.drained, then audit_reader_remove when its process_io is freed. If the kernel drops records, every process
 * that runs then is reported as affected (engine_on_violations_missed): its count of violations may be too low, and no
 * end is delayed for records that will never arrive.
 */

#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <stdint.h>

struct event;
struct event_base;
struct process_io;
struct violation_builder;
struct host_ports;

struct audit_reader {
	struct host_ports *host;
	int fd; /* −1 = audit is not available */
	struct event *ev, *retry;
	struct violation_builder *builder;
	char *records;            /* buffer for one batch of records */
	struct strmap sessions;   /* session, in decimal → struct process_io */
	uint64_t requested, seen; /* the last mark requested, and the last one received */
	bool lost_known;
	uint32_t lost;        /* records that the kernel dropped, according to the last mark */
	bool warned;          /* about a sandbox without a session */
	uint32_t congestions; /* as counted by the kernel */
	uint64_t missed;      /* how often records were dropped */
};

/* fd −1: nothing is read or waited for. */
void audit_reader_init(struct audit_reader *a, struct host_ports *w, int fd);
void audit_reader_listen(struct audit_reader *a, struct event_base *base);
void audit_reader_done(struct audit_reader *a);

/* From now on records with this session belong to this process. */
void audit_reader_add(struct audit_reader *a, struct process_io *h, uint32_t session);
/* A member has the session of its holder; denials in it are assigned by pid (process_io_blamed). */
void audit_reader_add_member(struct audit_reader *a, struct process_io *h);
void audit_reader_remove(struct audit_reader *a, struct process_io *h);
/* Its process is dead: true = host_ports.drained follows once all its records have arrived. */
bool audit_reader_drain(struct audit_reader *a, struct process_io *h);
/* Another spawner was started: marks requested from the earlier one may be lost. */
void audit_reader_retry_mark(struct audit_reader *a);

#endif
