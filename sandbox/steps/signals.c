#include "sandbox/steps/step.h"

#include <signal.h>

/* Handlers went with the clone; ignored signals and the mask would live through exec. */
int step_signals(struct step_context *c)
{
	const struct sigaction plain = { .sa_handler = SIG_DFL };
	for (int sig = 1; sig < NSIG; sig++) {
		if (sig != SIGKILL && sig != SIGSTOP)
			sigaction(sig, &plain, NULL); /* the two that glibc keeps for itself refuse: never ours to change */
	}
	sigset_t none;
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}
