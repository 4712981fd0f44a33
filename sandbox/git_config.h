#ifndef BAILIFF_SANDBOX_GIT_CONFIG_H
#define BAILIFF_SANDBOX_GIT_CONFIG_H

#include <limits.h>
#include <stdbool.h>

struct git_setting {
	char section[32], key[32], value[PATH_MAX]; /* section: its first word, e.g. "include" of [include "x"] */
};

/* The next setting with a value, from *at on; false at the end. `s->section` carries over from call to call. */
bool git_config_next(const char **at, struct git_setting *s);

#endif
