#ifndef BAILIFF_SANDBOX_STEPS_H
#define BAILIFF_SANDBOX_STEPS_H

/*
 * The names of the steps between clone and exec (rows of steps.def), and the parts of a plan that they depend on. The
 * steps themselves are in sandbox/steps/.
 */

#include "sandbox/plan.h"

#include <stdbool.h>
#include <stdint.h>

enum sandbox_step {
#define STEP(NAME, name, where, fn, summary) STEP_##NAME,
#include "sandbox/steps.def"
#undef STEP
	STEP_COUNT
};

enum step_where {
	STEP_PREBUILT,   /* in the init, possibly before there is a command */
	STEP_IN_INIT,    /* in the init */
	STEP_IN_COMMAND, /* in the command's own process, after the fork */
};

/*
 * Everything that the steps of STEP_PREBUILT read from a plan: a sandbox that was prebuilt for one plan fits every
 * other plan of the same shape. A step that starts to depend on more of the plan must add it here (step_shape_of).
 */
#define STEP_HIDDEN_MAX 480
struct step_shape {
	uint32_t flags, layers, network;
	uint32_t shows_host; /* the host's top level is visible */
	uint64_t tmp_bytes;
	char hidden[STEP_HIDDEN_MAX]; /* hidden paths of that level, NUL-terminated, one after another */
};

/* The placeholder helper's first message: for each mount, how many bytes of its path are a placeholder; 0 = none. */
#define STEP_PLACEHOLDER_NEEDLESS UINT32_MAX /* the command cannot create anything there, either */
#define STEP_PLACEHOLDER_UNSEEN \
	(UINT32_MAX - 1) /* in a directory that the peer has closed for itself: a missing path must not be skipped */
struct step_placeholders {
	int32_t error; /* errno, or 0 */
	uint32_t len[PLAN_MOUNTS_MAX];
};

/* "unknown" for an invalid number. */
const char *sandbox_step_name(uint32_t step);

/* false = no sandbox can be prebuilt for such a plan. */
bool step_shape_of(const struct plan_head *p, struct step_shape *ret);

#endif
