#ifndef BAILIFF_OTLP_SETTING_H
#define BAILIFF_OTLP_SETTING_H

#include <stdint.h>

struct err;

/*
 * A duration in milliseconds from an environment variable, 1 to `most`; `otherwise` if it is unset or empty.
 * ERR_INVALID names the variable.
 */
int env_setting_ms(const char *variable, uint64_t otherwise, uint64_t most, uint64_t *ret, struct err *e);

#endif
