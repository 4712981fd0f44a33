/* The session keyring of a sandbox whose user has reached the key quota. */

#include "sandbox/plan.h"
#include "sandbox/steps/step.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <linux/keyctl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNUSED_UID 61300 /* … and the next 500 */
#define WAITS_US 50000
#define QUOTA_TOO_LARGE 5000u /* keys: more than the sandboxes of a user */

static const struct plan_head confined = { .flags = PLAN_PRIVATE_ROOT };

/* Adds keys until the quota is reached, and removes them shortly after `go` was read. */
static void fill(int filled, int go)
{
	char name[16], byte = 0;

	for (unsigned n = 0;; n++) {
		if (n == QUOTA_TOO_LARGE)
			_exit(write(filled, "r", 1) != 1);
		snprintf(name, sizeof name, "%04u", n); /* no longer than a session keyring's: bytes are counted, too */
		if (syscall(SYS_add_key, "keyring", name, NULL, 0, KEY_SPEC_PROCESS_KEYRING) < 0)
			break;
	}
	if (errno != EDQUOT || write(filled, "f", 1) != 1 || read(go, &byte, 1) != 1)
		_exit(1);
	usleep(WAITS_US);
	_exit(syscall(SYS_keyctl, KEYCTL_CLEAR, KEY_SPEC_PROCESS_KEYRING) < 0);
}

/* As a separate user; the exit status is the result. */
static void enter_with_a_full_quota(void)
{
	uid_t uid = (uid_t)(UNUSED_UID + getpid() % 500);
	struct step_context c = { .plan = &confined };
	int filled[2], go[2];
	char byte;

	/* Only processes with a session keyring of their own are counted. */
	if (setresuid(uid, uid, uid) < 0 || pipe(filled) < 0 || pipe(go) < 0 ||
	    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0)
		_exit(errno == ENOSYS || errno == EPERM ? 0 : 2);
	pid_t filler = fork();
	if (filler == 0)
		fill(filled[1], go[0]);
	close(filled[1]);
	if (read(filled[0], &byte, 1) != 1)
		_exit(3);
	if (byte == 'r')
		_exit(0); /* the quota of this machine is larger than can be filled here */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0 || errno != EDQUOT)
		_exit(4);
	if (write(go[1], "g", 1) != 1 || step_keyring(&c) < 0)
		_exit(5);
	int status;
	_exit(waitpid(filler, &status, 0) == filler && status == 0 ? 0 : 6);
}

START_TEST(a_full_key_quota_is_waited_for)
{
	int status;
	pid_t pid;

	SKIP_IF(geteuid() != 0, "requires root: the quota of this user's other sandboxes would be used up");
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0)
		enter_with_a_full_quota();
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void) { return SUITE("keyring", a_full_key_quota_is_waited_for); }
