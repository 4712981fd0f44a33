#ifndef BAILIFF_OTLP_SETTING_H
#define BAILIFF_OTLP_SETTING_H

#include <stdint.h>

struct err;

/* A time that a variable of the environment gives in milliseconds, 1 to `most`; `otherwise` where it is unset or empty.
 * ERR_INVALID names it. */
int env_setting_ms(const char *variable, uint64_t otherwise, uint64_t most, uint64_t *ret, struct err *e);

#endif
