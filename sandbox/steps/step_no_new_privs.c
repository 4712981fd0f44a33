#include "sandbox/steps/step.h"

#include <sys/prctl.h>

int step_no_new_privs(struct step_context *c) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }
