#ifndef BAILIFF_SUPERVISOR_HOST_COW_PORTS_H
#define BAILIFF_SUPERVISOR_HOST_COW_PORTS_H

/* The ports for copy-on-write changes (runtime/engine/core/ports.h), by cow_changes. `host` is a struct host_ports. */

#include <stdint.h>

int cow_port_discard(void *host, const char *id, uint32_t uid);
int cow_port_copy(void *host, const char *from, const char *to);
void cow_port_drop(void *host, const char *id);

#endif
