#ifndef BAILIFF_SUPERVISOR_HOST_AUDIT_READER_H
#define BAILIFF_SUPERVISOR_HOST_AUDIT_READER_H

/*
 * Reads the kernel's audit records and tells the engine which sandbox was refused what. Sandboxes are known by their
 * audit session.
 *
 * That all refusals of a process have come is proved by a mark: the spawner puts it behind the records that exist once
 * the process is dead, and it comes through the same queue.
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
	char *room;             /* for records */
	struct strmap sessions; /* session, in decimal → struct process_io */
	uint64_t asked, seen;   /* marks */
	bool lost_known;
	uint32_t lost;        /* records that the kernel could not keep, as the last mark says */
	bool warned;          /* that a sandbox has no session */
	uint32_t congestions; /* as the kernel counts them */
	uint64_t missed;      /* times that there were more */
};

/* fd −1: nothing is read, and nothing is waited for. */
void audit_reader_init(struct audit_reader *a, struct host_ports *w, int fd);
void audit_reader_listen(struct audit_reader *a, struct event_base *base);
void audit_reader_done(struct audit_reader *a);

/* From now on records with this session are about this hold's process. */
void audit_reader_add(struct audit_reader *a, struct process_io *h, uint32_t session);
void audit_reader_remove(struct audit_reader *a, struct process_io *h);
/* Its process is dead: true = engine_on_settled will say when everything about it has come. */
bool audit_reader_drain(struct audit_reader *a, struct process_io *h);
/* There is another spawner: what was asked of the earlier one may be lost. */
void audit_reader_retry_mark(struct audit_reader *a);

#endif
