#ifndef BAILIFF_SANDBOX_PLAN_H
#define BAILIFF_SANDBOX_PLAN_H

/*
 * A plan: what the kernel is told for one command. A flat binary message: a fixed head, then the strings. The runtime
 * builds it (plan_build), hashes it and passes it to the spawner in a sealed memfd; the spawner checks every length and
 * offset again (plan_check) because it does not trust who sent it. Nothing in a plan is text to interpret.
 *
 * Credentials are not in the plan: the spawner reads them from the client's socket itself.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

#define PLAN_MAGIC 0x4e4c5042u /* "BPLN" */
#define PLAN_VERSION 1u
#define PLAN_MAX (4u << 20)
#define PLAN_ARGS_MAX 32768u
#define PLAN_KEY_MAX 40

/* Which process this is about: its id, and which try at starting it. */
struct plan_key {
	char id[PLAN_KEY_MAX];   /* NUL-terminated, NUL-padded */
	uint32_t attempt;
	uint32_t reserved;
};

/* The id becomes part of a cgroup's name: letters, digits, '_' and '-' only; padded with NULs. */
bool plan_key_valid(const struct plan_key *k);

enum plan_flag {
	PLAN_KEEP_TREE = 1u << 0,    /* do not kill what the command leaves behind when it ends */
	PLAN_STDIN_PIPE = 1u << 1,   /* else /dev/null */
	PLAN_STDERR_MERGE = 1u << 2, /* stderr is the same pipe as stdout */
};

/* Layers, as bits: what is asked for, and what was possible (reported by the spawner). The names are sandbox.applied's. */
enum plan_layer {
	PLAN_LAYER_NAMESPACES = 1u << 0,
	PLAN_LAYER_MOUNTS = 1u << 1,
	PLAN_LAYER_LANDLOCK = 1u << 2,
	PLAN_LAYER_SECCOMP = 1u << 3,
	PLAN_LAYER_CAPABILITIES = 1u << 4,
	PLAN_LAYER_CGROUP = 1u << 5,
};

#define PLAN_UNLIMITED UINT64_MAX

struct plan_head {
	uint32_t magic;
	uint32_t version;
	uint32_t total_len;      /* of the whole plan */
	uint32_t flags;          /* enum plan_flag */
	uint32_t layers;         /* enum plan_layer: asked for */
	uint32_t require;        /* of those, which must not be missing */
	uint32_t argc, envc;
	uint32_t cwd_off;        /* offsets from the start of the plan to NUL-terminated strings */
	uint32_t argv_off;       /* u32 offsets[argc] */
	uint32_t envv_off;       /* u32 offsets[envc], "K=V" */
	uint32_t reserved;
	uint64_t cpu_ms;         /* of the whole tree; PLAN_UNLIMITED = none. Enforced by the init */
	uint64_t open_files;     /* RLIMIT_NOFILE */
	uint64_t file_bytes;     /* RLIMIT_FSIZE */
};

/* What plan_build takes. */
struct plan_spec {
	uint32_t flags, layers, require;
	const char *cwd;
	const char *const *argv; /* argc of them */
	size_t argc;
	const char *const *envv; /* "K=V" */
	size_t envc;
	uint64_t cpu_ms, open_files, file_bytes; /* PLAN_UNLIMITED = none */
};

int plan_build(const struct plan_spec *spec, struct buf *out, struct err *e);
/* Every length, offset and terminator; bounds on counts; known flags and layers only. */
int plan_check(const void *plan, size_t len, struct err *e);
const char *plan_string(const struct plan_head *p, uint32_t off);
const char *plan_arg(const struct plan_head *p, uint32_t i);
const char *plan_env(const struct plan_head *p, uint32_t i);

#endif
