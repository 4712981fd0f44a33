#ifndef BAILIFF_ENGINE_PORTS_H
#define BAILIFF_ENGINE_PORTS_H

/*
 * How the engine reaches the host, and how the host reports to the engine.
 *
 * The supervisor implements the ports with pipes, the guard and the spawner; a test implements them with a script and
 * a clock of its own. No port calls back into the engine before it returned.
 */

#include "sandbox/plan.h"
#include "sandbox/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct engine;
struct engine_options;
struct host_rules;
struct err;
struct policy_rules;
struct violation;

enum { STREAM_STDOUT, STREAM_STDERR, STREAM_PTY, STREAM_COUNT }; /* the first two, or the third */

/* What the host needs to know of a process besides its id: where its output goes. Copied. */
/* A request that was announced to the host before it was decided. */
struct port_expected {
	uint64_t hint, token; /* 0 = it was not */
};

struct port_streams {
	char ref[STREAM_COUNT][PLAN_KEY_MAX]; /* output refs; "" = no such stream */
	uint64_t limit;                       /* kept of each; 0 = all */
	struct port_expected expected;        /* in the same request */
	const struct host_rules *hosts; /* network `allow`: what may be reached; else NULL. Only during the call */
	const char *input; /* all that it has to read; NULL = what is written to it. Only during the call */
};

/* How a terminal's line is set now. */
struct port_line {
	bool echo, canonical;
	unsigned char eof; /* ends input in canonical mode; 0 = there is none */
};

struct policy_key {
	uint32_t uid;
	int peer_fd; /* the client's socket: files are opened as its peer */
	const char *workspace, *home;
	uint64_t since_ns; /* files that were looked at after this will do; 0 = they must not have changed by now */
};

struct port_rule {
	uint32_t uid;
	int peer_fd;
	const char *list;        /* allow, deny */
	const char *const *rule; /* "Bash(npm test)" … */
	size_t count;
	const char *id; /* for the answer */
};

struct ports {
	uint64_t (*real_us)(void *host);
	uint64_t (*boot_ns)(void *host);
	/* engine_tick is wanted at this time (CLOCK_BOOTTIME); the earliest wins until it was called. */
	void (*wake_at)(void *host, uint64_t boot_ns);
	/* The environment that commands of this uid begin with, "K=V" strings one after another, each with its NUL. */
	void (*base_env)(void *host, uint32_t uid, struct buf *out);

	/* A client of this uid is there: its socket (duplicated) proves who it is to the spawner, also later. */
	void (*add_peer)(void *host, uint32_t uid, int peer_fd);
	int (*find_peer)(void *host,
			 uint32_t uid); /* such a socket (borrowed), or −1: none has come since the guard began */

	/* Answered by engine_on_started or engine_on_launch_failed. The plan is copied; peer_fd is duplicated. */
	void (*launch)(void *host, const char *id, const void *plan, size_t plan_len, uint32_t flags,
		       const struct port_streams *streams, int peer_fd);
	void (*open_gate)(void *host, const char *id);
	void (*signal)(void *host, const char *id, int sig); /* to the command, by its init */
	void (*kill_tree)(void *host, const char *id);       /* by its init, which reports how it ended */
	void (*kill)(void *host, const char *id);            /* the init itself, by the guard */
	/* >0 bytes taken; 0 = the pipe or the terminal is full, engine_on_stdin_room follows; −1 with errno. */
	ssize_t (*write_stdin)(void *host, const char *id, const void *p, size_t n);
	void (*close_stdin)(void *host, const char *id);
	/* Of a process with a terminal; −1 with errno. */
	int (*line)(void *host, const char *id, struct port_line *ret);
	int (*resize)(void *host, const char *id, uint32_t rows, uint32_t cols);
	/* Bytes that came so far; −1 with errno. Short only at the end. */
	ssize_t (*peek_output)(void *host, const char *id, int stream, uint64_t offset, void *p, size_t n);
	int (*output_fd)(void *host, const char *id, int stream); /* of the spool file; −1 if nothing came yet */
	void (*stop_reading)(void *host, const char *id);         /* the drain deadline is over */
	/* Nobody reads this stream any more, for good: whoever writes to it gets SIGPIPE. Not of a terminal. */
	void (*close_output)(void *host, const char *id, int stream);
	/* Its end is committed: forget everything of it. Small outputs (bits by stream) no longer need their files. */
	void (*release)(void *host, const char *id, unsigned unspilled);
	/* Takes back what a copy-on-write run changed; 0: engine_on_discarded follows (later). May be NULL. */
	int (*discard_changes)(void *host, const char *id, uint32_t uid);
	/* Its tree is dead: true = refusals may still be on their way, and engine_on_settled follows. May be NULL. */
	bool (*settle)(void *host, const char *id);
	/* The policy files, please: they come as with SIGHUP. May be NULL. */
	void (*want_reload)(void *host);
	/*
	 * The rules for work of this uid's in a workspace ("" = none), with what the peer's and the workspace's own
	 * files add. May be NULL. 0: there they are, until the loop goes on. 1: the files are looked at, and
	 * engine_on_policy follows. −1: they are not known, and this is why.
	 */
	int (*policy_of)(void *host, const struct policy_key *place, const struct policy_rules **ret, struct err *e);
	/* What is known to be nested in this uid's workspace and protected like its own (sandbox/nested_repos.h), each
	 * with its NUL. May be NULL. */
	void (*nested_of)(void *host, uint32_t uid, const char *workspace, struct buf *out);
	/* Puts a rule into the user's own file. 0: engine_on_rule_written follows. −1: it cannot. May be NULL. */
	int (*write_rule)(void *host, const struct port_rule *rule, struct err *e);
	/*
	 * A root client lets commands be run in these folders (each with its NUL), also when it has left. `hold`: it
	 * gets no reply until that is noted, so that it does not leave too early. May be NULL.
	 */
	void (*authorise)(void *host, int peer_fd, const char *paths, size_t len, bool hold);
	/*
	 * There is a request, of which `launch` is likely to follow: what a sandbox of that sort (equal hints) needs
	 * can be looked at meanwhile. What comes back goes to its launch, if that is within the same call. NULL: nobody
	 * wants to know.
	 */
	struct port_expected (*expect)(void *host, uint64_t hint);
};

/* A process that the guard holds from before a restart. */
struct port_held {
	const char *id;
	uint32_t attempt;
	bool started;    /* its init was cloned */
	bool exited;     /* … and has ended meanwhile: how, its status pipe will tell */
	unsigned closed; /* streams that were closed (bits 1u << stream): nothing more comes of them */
	bool watched;    /* it was started so that what the kernel refuses it can be told */
};
/* For recovery: take over what the guard holds of this process / end and drop it. */
struct recovery_ports {
	void (*adopt)(void *host, const struct port_held *h, const struct port_streams *streams,
		      uint64_t size[STREAM_COUNT]);
	void (*abandon)(void *host, const struct port_held *h);
	/* A lost process: only what its spool files hold can be asked for, until `release`. */
	void (*salvage)(void *host, const char *id, const struct port_streams *streams, uint64_t size[STREAM_COUNT]);
};
/*
 * Settles every process that the log calls live, writes history.reconstructed (not in a new store, where it makes the
 * system session instead) and waits until that is durable. Before this nothing else may be asked of the engine.
 */
int engine_recover(struct engine *g, const struct recovery_ports *ports, const struct port_held *held, size_t ndeferred,
		   struct err *e);
/*
 * After that, once the policy in force is known and before clients come: work that the restart cut short is ended or
 * goes on, which may start processes. Waits until what it decides is durable.
 */
void engine_resume(struct engine *g);

/* ---- what happened ---- */

struct port_started {
	int32_t pid;
	uint64_t start_time;
	uint32_t layers; /* that the clone gave */
	uint32_t attempt;
};
void engine_on_started(struct engine *g, const char *id, const struct port_started *s);
void engine_on_launch_failed(struct engine *g, const char *id, uint32_t step, int error, const char *path);
void engine_on_ready(struct engine *g, const char *id, uint32_t layers);
void engine_on_execed(struct engine *g, const char *id);
/* Only with keepTree: the command has ended and what it left running goes on. May be said again. */
void engine_on_command_exited(struct engine *g, const char *id, int wait_status);
/* The init's last word came, FAILED or EXITED; engine_on_gone follows. */
/* The init's report on autorun files (sandbox/autorun_report.h), before engine_on_exited or engine_on_gone; once is
 * enough. */
void engine_on_autorun(struct engine *g, const char *id, const void *report, size_t len);
void engine_on_exited(struct engine *g, const char *id, const struct status_msg *last);
/* The init is dead (so its whole tree is), and this was its last word: FAILED or EXITED, or NULL if it was killed. */
void engine_on_gone(struct engine *g, const char *id, const struct status_msg *last);
void engine_on_output(struct engine *g, const char *id, int stream, uint64_t size);
void engine_on_output_end(struct engine *g, const char *id, int stream);
/* Output waits in the pipe because the disk is full (error) or goes on (0). */
void engine_on_output_stalled(struct engine *g, const char *id, int stream, int error);
void engine_on_stdin_room(struct engine *g, const char *id);
/* The sandbox refused something. */
void engine_on_violation(struct engine *g, const char *id, const struct violation *v);
/* Some of what it was refused may never be told. */
void engine_on_violations_missed(struct engine *g, const char *id);
void engine_on_reports_complete(struct engine *g, const char *id);
/* Connections that the proxy let through have ended: so many more, with so many more bytes. */
struct port_traffic {
	const char *host;
	uint32_t port;
	uint64_t connections, sent, received;
};
void engine_on_traffic(struct engine *g, const char *id, const struct port_traffic *t);
/* The files of a place were looked at, whatever came of it. */
void engine_on_policy(struct engine *g, uint32_t uid, const char *workspace);
/* The rules of `id` are in this file now, the first at this line, and in force; or e says why not. */
void engine_on_rule_written(struct engine *g, const char *id, const char *file, unsigned line, const struct err *e);
void engine_tick(struct engine *g);

/* Ends everything live (reason "shutdown") and calls done when all of it is recorded. New starts are refused. */
void engine_stop(struct engine *g, void (*done)(void *ctx), void *ctx);

/* runtime.warning / runtime.error in the system session. */
void engine_warn(struct engine *g, const char *code, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void engine_error(struct engine *g, const char *code, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* policy.changed etc. come with their issues. */

#endif
