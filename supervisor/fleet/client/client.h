#ifndef BAILIFF_FLEET_CLIENT_CLIENT_H
#define BAILIFF_FLEET_CLIENT_CLIENT_H

/*
 * bailiff-fleet-client: the verbs of `bailiff fleet`. `bailiff` has checked the options and the number of arguments and
 * executes this program with them; the tables, messages and formats are those of the command line (supervisor/cli).
 * One row of `subverbs` in main.c for each function here; all return the exit status.
 */

struct cli;

int fleet_cancel(struct cli *c);
int fleet_dev(struct cli *c);
int fleet_diff(struct cli *c);
int fleet_evidence(struct cli *c);
int fleet_key(struct cli *c);
int fleet_list(struct cli *c);
int fleet_logs(struct cli *c);
int fleet_nodes(struct cli *c);
int fleet_prune(struct cli *c);
int fleet_retry(struct cli *c);
int fleet_run(struct cli *c);
int fleet_show(struct cli *c);
int fleet_submit(struct cli *c);
int fleet_wait(struct cli *c);

#endif
