#include "sandbox/capability.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/capability.h>

#define cap_auto __attribute__((cleanup(free_caps)))

static void free_caps(cap_t *caps)
{
	int saved = errno;
	if (*caps)
		cap_free(*caps);
	errno = saved;
}

static cap_t no_capabilities; /* of capability_prepare; lives as long as the process */

void capability_prepare(void)
{
	if (!no_capabilities && !(no_capabilities = cap_init()))
		abort(); /* out of memory */
}

int capability_clear(void)
{
	capability_prepare();
	return cap_set_proc(no_capabilities);
}

bool capability_has(int capability)
{
	cap_auto cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;
	return caps && cap_get_flag(caps, capability, CAP_EFFECTIVE, &value) == 0 && value == CAP_SET;
}

int capability_keep_only(const int *capabilities, size_t n)
{
	cap_auto cap_t caps = cap_init();
	if (!caps || cap_set_flag(caps, CAP_PERMITTED, (int)n, capabilities, CAP_SET) < 0 ||
	    cap_set_flag(caps, CAP_EFFECTIVE, (int)n, capabilities, CAP_SET) < 0)
		return -1;
	return cap_set_proc(caps);
}

int capability_lower_to(int capability)
{
	cap_auto cap_t caps = cap_get_proc();
	if (!caps || cap_clear_flag(caps, CAP_EFFECTIVE) < 0 ||
	    cap_set_flag(caps, CAP_EFFECTIVE, 1, &capability, CAP_SET) < 0)
		return -1;
	return cap_set_proc(caps);
}

int capability_raise_all(void)
{
	cap_auto cap_t caps = cap_get_proc();
	cap_flag_value_t permitted;
	for (cap_value_t cap = 0; caps && cap_get_flag(caps, cap, CAP_PERMITTED, &permitted) == 0; cap++) {
		if (cap_set_flag(caps, CAP_EFFECTIVE, 1, &cap, permitted) < 0)
			return -1;
	}
	return caps ? cap_set_proc(caps) : -1;
}

void capability_drop_bounds(void)
{
	for (cap_value_t cap = 0; cap_drop_bound(cap) == 0; cap++)
		continue;
}
