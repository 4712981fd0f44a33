#ifndef BAILIFF_FLEET_REPORT_H
#define BAILIFF_FLEET_REPORT_H

/*
 * Tells the daemon about the fleet, for those who look at it there (the console): that this process runs and is
 * connected, once a second, and the nodes and tasks while a client asks for them. Lists are read at most as often as
 * keeps them below a twentieth of this thread's time, which has leases to renew; while tasks run here, long ones are
 * not read, and the report says so. They have no commands, prompts or results: these are for the submitters, who have
 * keys.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_link;
struct fleet_node;

struct fleet_report {
	struct event_link *link;
	uint64_t report_at, list_at; /* boot clock, ms */
	bool wanted, failed;         /* the last report's answer */
	/* The last lists. */
	uint64_t read_at, took_ms;
	size_t entries; /* task documents */
};

/* Not connected yet. */
void fleet_report_problem(struct fleet_report *r, const char *node, const char *problem);
void fleet_report_tick(struct fleet_report *r, struct fleet_node *n);
/* Whether reading the lists cannot outlast a lease, by how long it took the last time. now: boot clock, ms. */
bool fleet_report_may_list(const struct fleet_report *r, const struct fleet_node *n, uint64_t now);

#endif
