#ifndef BAILIFF_SANDBOX_PLAN_H
#define BAILIFF_SANDBOX_PLAN_H

/*
 * A plan: everything that the spawner needs to know for one command. A flat binary message: a fixed head, then the
 * strings. The runtime builds it (plan_build), hashes it and passes it to the spawner, in the message or in a sealed
 * memfd. The spawner validates every length and offset again (plan_check), because it does not trust the sender.
 * Nothing in a plan is text to interpret.
 *
 * Credentials are not in the plan: the spawner reads them from the client's socket itself.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct jw;

#define PLAN_MAGIC 0x4e4c5042u /* "BPLN" */
#define PLAN_VERSION 4u
#define PLAN_MAX (4u << 20)
#define PLAN_ARGS_MAX 32768u
#define PLAN_MOUNTS_MAX 256u
#define PLAN_KEY_MAX 40
#define PLAN_TTY_DIMENSION_MAX 1000u /* rows, and columns, of a terminal */

/* Identifies a process and the attempt to start it. */
struct plan_key {
	char id[PLAN_KEY_MAX]; /* NUL-terminated, NUL-padded */
	uint32_t attempt;
	uint32_t reserved;
};

/* The id becomes part of a cgroup's name: only letters, digits, '_' and '-'; padded with NULs. */
bool plan_key_valid(const struct plan_key *k);

enum plan_flag {
	PLAN_KEEP_TREE = 1u << 0,    /* do not kill the rest of the tree when the command ends */
	PLAN_STDIN_PIPE = 1u << 1,   /* else /dev/null */
	PLAN_STDERR_MERGE = 1u << 2, /* stderr uses stdout's pipe */
	PLAN_PRIVATE_ROOT = 1u << 3, /* confined: its own root, built from the mounts; never as root */
	PLAN_COW = 1u << 4,          /* write roots are overlays: writes are stored separately (with PRIVATE_ROOT) */
	PLAN_TTY = 1u << 5,          /* a terminal instead of pipes: not with STDIN_PIPE or STDERR_MERGE */
	PLAN_HOLDER = 1u << 6,       /* no command: holds a sandbox for members. Its stdin is the link to them */
	PLAN_MEMBER = 1u << 7,       /* a command in a holder's sandbox (supervisor/spawner/member_msg.h) */
	PLAN_COW_COPY = 1u << 8,     /* with COW: the layers are a copy of another run's, made before the start */
};

enum plan_network {
	PLAN_NET_HOST = 0,  /* the host's network namespace */
	PLAN_NET_NONE = 1,  /* an empty one with loopback */
	PLAN_NET_ALLOW = 2, /* an empty one with loopback and a listening socket that is sent to the runtime */
};
/* Port of that socket on 127.0.0.1 inside: outside of the ephemeral port range. */
#define PLAN_PROXY_PORT 61080

/*
 * The parts of a private root, in this order. A path is the same inside and outside; the spawner's child resolves it
 * once, with the peer's identity.
 *
 * A later mount covers an earlier one, so a tree can be shown again inside a hidden or empty directory (HIDE /home,
 * EMPTY the peer's home, READ its toolchains, WRITE the workspace in it): mount points are created there as needed.
 * Compiled plans list a directory before what is inside it. /tmp, /var/tmp and /dev/shm are private before the first
 * mount: a tree below /tmp is bound into the private one.
 */
enum plan_mount_kind {
	PLAN_MOUNT_SYSTEM =
		1, /* path "/": every entry of the host's root, read-only, except those that a sandbox creates itself */
	PLAN_MOUNT_READ = 2,    /* this tree or file, read-only */
	PLAN_MOUNT_WRITE = 3,   /* a write root */
	PLAN_MOUNT_EMPTY = 4,   /* a private, empty, writable directory */
	PLAN_MOUNT_HIDE = 5,    /* nothing is visible there, and nothing can be created */
	PLAN_MOUNT_PROTECT = 6, /* inside a write root: read-only, and cannot be moved with a parent */
};
enum plan_mount_flag {
	PLAN_MOUNT_OPTIONAL = 1u << 0,  /* may be missing */
	PLAN_MOUNT_OWNED = 1u << 1,     /* the peer's own: a root peer's sandbox sees it with root's ids as its own */
	PLAN_MOUNT_IN_PARENT = 1u << 2, /* for PROTECT: may be missing together with its directory, but not alone */
	PLAN_MOUNT_EXACT = 1u << 3,     /* for READ, HIDE: no link is followed, and one counts as missing */
	PLAN_MOUNT_NESTED = 1u << 4,    /* for PROTECT: in a nested repository. Of a link whose target cannot be
					   determined only the link is protected; elsewhere it is an error */
};
struct plan_mount {
	uint32_t kind;
	uint32_t flags;
	uint32_t path_off;
	uint32_t reserved;
};

/* Layers as bits: those requested, and those in effect (reported by the spawner). The names are sandbox.applied's. */
enum plan_layer {
	PLAN_LAYER_NAMESPACES = 1u << 0,
	PLAN_LAYER_MOUNTS = 1u << 1,
	PLAN_LAYER_LANDLOCK = 1u << 2,
	PLAN_LAYER_SECCOMP = 1u << 3,
	PLAN_LAYER_CAPABILITIES = 1u << 4,
	PLAN_LAYER_CGROUP = 1u << 5,
	PLAN_LAYER_ABSTRACT_SOCKETS = 1u
				      << 6, /* the host's are out of reach, through the network namespace or Landlock */
};

#define PLAN_UNLIMITED UINT64_MAX

/* Limits on the whole tree, by cgroup: rows of plan_limits.def. */
enum plan_limit {
#define PLAN_LIMIT(NAME, key, controller, unit, least, most, otherwise) PLAN_LIMIT_##NAME,
#include "sandbox/plan_limits.def"
#undef PLAN_LIMIT
	PLAN_LIMITS
};

struct plan_limits {
	uint64_t value[PLAN_LIMITS]; /* in the row's units; 0 = none. For PIDS, the init is not counted */
	uint64_t required; /* bits 1 << enum plan_limit: limits without which the command must not run; PLAN_LIMITS_ALL
			    */
};
#define PLAN_LIMITS_ALL (1u << PLAN_LIMITS) /* all that are set */
bool plan_limit_is_required(const struct plan_limits *l, enum plan_limit i);

enum plan_unit { PLAN_UNIT_BYTES, PLAN_UNIT_COUNT, PLAN_UNIT_THOUSANDTHS };

struct plan_limit_info {
	const char *key;
	enum plan_unit unit;
	uint64_t least, most, otherwise;
};
extern const struct plan_limit_info plan_limit_info[PLAN_LIMITS];
extern const char plan_limit_keys[]; /* ", memoryBytes, …" */
/* Converts a JSON number to the row's units; 0 = less than one unit. */
uint64_t plan_limit_scale(enum plan_limit l, double number);
/* Writes the limits that are set as members of the open object. */
void plan_limits_write(const struct plan_limits *l, struct jw *w);
/* Replaces the limits that `own` has. */
void plan_limits_add(struct plan_limits *l, const struct plan_limits *own);
/* Why a value is out of its row's range ("must be 0.01 or more"); NULL = it is in range. */
const char *plan_limit_refusal(enum plan_limit l, uint64_t value, char room[64]);

struct plan_head {
	uint32_t magic;
	uint32_t version;
	uint32_t total_len; /* of the whole plan */
	uint32_t flags;     /* enum plan_flag */
	uint32_t layers;    /* enum plan_layer: requested */
	uint32_t require;   /* those of them that are required */
	uint32_t argc, envc;
	uint32_t cwd_off;  /* offsets from the start of the plan to NUL-terminated strings */
	uint32_t argv_off; /* u32 offsets[argc] */
	uint32_t envv_off; /* u32 offsets[envc], "K=V" */
	uint32_t network;  /* enum plan_network */
	uint32_t mount_count;
	uint32_t mounts_off; /* struct plan_mount[mount_count] */
	uint64_t tmp_bytes;  /* private /tmp, /var/tmp and /dev/shm together; also each EMPTY directory; 0 = the default
			      */
	struct plan_limits limits;   /* of the tree */
	uint64_t cpu_ms;             /* of the whole tree; PLAN_UNLIMITED = none. Enforced by the init */
	uint64_t open_files;         /* RLIMIT_NOFILE */
	uint64_t file_bytes;         /* RLIMIT_FSIZE */
	uint32_t tty_rows, tty_cols; /* with PLAN_TTY; else 0 */
};

struct plan_mount_spec {
	uint32_t kind, flags;
	const char *path; /* absolute, without . or .. */
};

/* The input of plan_build. */
struct plan_spec {
	uint32_t flags, layers, require;
	const char *cwd;
	const char *const *argv; /* argc of them */
	size_t argc;
	const char *const *envv; /* "K=V" */
	size_t envc;
	uint64_t cpu_ms, open_files, file_bytes; /* PLAN_UNLIMITED = none */
	uint32_t network;
	const struct plan_mount_spec *mounts;
	size_t nmounts;
	uint64_t tmp_bytes;
	struct plan_limits limits;
	uint32_t tty_rows, tty_cols;
};

/* Maximum number of tasks in the sandbox, including its init; 0 = no limit. */
uint64_t plan_tasks(const struct plan_head *p);

int plan_build(const struct plan_spec *spec, struct buf *out, struct err *e);
/* Checks every length, offset and terminator, limits of counts, and that flags and layers are known. */
int plan_check(const void *plan, size_t len, struct err *e);
const char *plan_string(const struct plan_head *p, uint32_t off);
const char *plan_arg(const struct plan_head *p, uint32_t i);
const char *plan_env(const struct plan_head *p, uint32_t i);
const struct plan_mount *plan_mount(const struct plan_head *p, uint32_t i);
/*
 * The mount that mount i is on: the last one before it whose path is the same or a parent; −1 = none. Ignores SYSTEM.
 */
int plan_mount_below(const struct plan_head *p, uint32_t i);
/*
 * Whether sandboxes built for either plan are the same, up to the point where the command's message arrives: they may
 * differ in the command, its directory, environment and standard streams, and in per-process limits.
 */
bool plan_same_sandbox(const struct plan_head *a, const struct plan_head *b);
/*
 * Whether a member's plan describes the sandbox of the holder: both may differ in everything that belongs to a command,
 * terminals and HOME included. Plans of the same sandbox have the same hash (lower-case hex).
 */
bool plan_fits_holder(const struct plan_head *holder, const struct plan_head *member);
#define PLAN_SANDBOX_HASH 65
void plan_sandbox_hash(const struct plan_head *p, char ret[PLAN_SANDBOX_HASH]);
/* HOME of the environment if it is valid in a line of passwd, otherwise "/". */
const char *plan_home(const struct plan_head *p);
/* Whether `path` is `folder` or inside it. */
bool plan_path_inside(const char *path, const char *folder);

#endif
