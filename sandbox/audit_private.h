#ifndef BAILIFF_SANDBOX_AUDIT_PRIVATE_H
#define BAILIFF_SANDBOX_AUDIT_PRIVATE_H

/* Messages to and from the kernel's audit, and the rules of this daemon. Everything here returns −1 with errno on
 * failure. */

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
/* The next message; its length. ETIMEDOUT when none comes. */
ssize_t audit_receive(int fd, struct audit_message *ret);
ssize_t audit_receive_within(int fd, int ms, struct audit_message *ret);
/* The error that a message of type NLMSG_ERROR carries; 0 = an acknowledgement. */
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
	bool owner_is_bailiff; /* `owner` is one of them, or this process */
	bool foreign;          /* somebody else has rules */
	bool never_task;       /* and one of them keeps the kernel from auditing tasks, perhaps all of them */
};

/* Rules that a daemon left behind that is dead are removed on the way. `owner`: the process that records go to; 0 =
 * none. */
int audit_rules_read(int fd, pid_t owner, struct audit_rules_state *ret);
bool audit_rules_complete(const struct audit_rules_state *s);
/* Adds what is missing; the task rule only if asked for. */
int audit_rules_add(int fd, bool task_rule);
int audit_rules_remove_task(int fd);
int audit_rules_remove(int fd);

#endif
