#ifndef BAILIFF_SANDBOX_AUDIT_PRIVATE_H
#define BAILIFF_SANDBOX_AUDIT_PRIVATE_H

/* The kernel's audit messages, and this daemon's rules. All functions return −1 with errno on failure. */

#include <linux/audit.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct audit_message {
	struct nlmsghdr head;
	char body[9000 - sizeof(struct nlmsghdr)];
};

int audit_send(int fd, uint16_t type, uint16_t flags, const void *body, size_t n);
/* Receives the next message and returns its length. ETIMEDOUT if none arrives. */
ssize_t audit_receive(int fd, struct audit_message *ret);
ssize_t audit_receive_within(int fd, int ms, struct audit_message *ret);
/* The error in a message of type NLMSG_ERROR; 0 = an acknowledgement. */
int audit_error_of(const struct audit_message *m, ssize_t n);
/* Sends a request and waits for the acknowledgement. */
int audit_request(int fd, uint16_t type, const void *body, size_t n);
int audit_get_status(int fd, struct audit_status *ret);

/* ---- rules ---- */

struct audit_rules_state {
	size_t exit_rules;     /* of this daemon */
	bool task_rule;        /* of this daemon */
	bool other_daemons;    /* another bailiffd that is alive has rules */
	bool others_task_rule; /* one of those is its task rule */
	bool owner_is_bailiff; /* `owner` is one of these, or this process */
	bool foreign;          /* another program has rules */
	bool never_task;       /* one of which keeps the kernel from auditing some or all tasks */
};

/* Also removes rules that a dead daemon left. `owner`: the process that receives records; 0 = none. */
int audit_rules_read(int fd, pid_t owner, struct audit_rules_state *ret);
bool audit_rules_complete(const struct audit_rules_state *s);
/* Adds the missing rules; the task rule only if requested. */
int audit_rules_add(int fd, bool task_rule);
int audit_rules_remove_task(int fd);
int audit_rules_remove(int fd);

#endif
