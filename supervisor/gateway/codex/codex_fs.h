#ifndef BAILIFF_GATEWAY_CODEX_FS_H
#define BAILIFF_GATEWAY_CODEX_FS_H

#include <jansson.h>
#include <stdint.h>

struct codex_call;

/* Runs `bailiff-tool fs OPERATION FLAGS PATH [OTHER]` in the requested sandbox. */
void codex_fs_launch(struct codex_call *c, const char *operation, const char *flags, const char *path,
		     const char *other, const json_t *sandbox,
		     void (*launched)(struct codex_call *c, json_t *result, json_t *error));
/* Reads a range of a file. The bytes go to the call's read_done; if that is NULL, they become the result. */
void codex_fs_read(struct codex_call *c, const char *path, const json_t *sandbox, uint64_t offset, uint64_t length);

#endif
