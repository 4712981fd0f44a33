#ifndef BAILIFF_ENGINE_PORTS_H
#define BAILIFF_ENGINE_PORTS_H

/*
 * The interface between engine and host: the engine acts through `struct ports`, the host reports through engine_on_*.
 *
 * The supervisor implements the ports with pipes, the guard and the spawner; a test implements them with a script and
 * a fake clock. A port never calls back into the engine before it returns. `id` is a process id throughout.
 */

#include "runtime/base/err.h"
#include "sandbox/plan.h"
#include "sandbox/status.h"

#include <limits.h>
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

enum { STREAM_STDOUT, STREAM_STDERR, STREAM_PTY, STREAM_COUNT }; /* a process has the first two, or the third */

/* Identifies a start request that was announced to the host (`expect`) before it was decided. */
struct port_expected {
	uint64_t hint, token; /* 0 = not announced */
};

/* Input and output of a process that is launched or adopted. Copied, except for the borrowed pointers. */
struct port_streams {
	uint32_t uid;                         /* whose process it is */
	char ref[STREAM_COUNT][PLAN_KEY_MAX]; /* output refs; "" = no such stream */
	uint64_t limit;                       /* bytes kept of each stream; 0 = all */
	struct port_expected expected;        /* what `expect` returned for the same request */
	const struct host_rules *hosts; /* network `allow`: the host rules; else NULL. Valid only during the call */
	const char *input;         /* the complete input; NULL = write_stdin follows. Valid only during the call … */
	bool input_stays;          /* … its beginning: write_stdin may follow, if it fits into a pipe */
	const char *within;        /* the holder that starts it; NULL = the spawner. Valid only during the call */
	int32_t pid;               /* adopted member: its leader, which the guard does not know */
	struct plan_limits limits; /* of a member alone; the values are 0 if it has none */
	bool holder;               /* adopted: it holds a session sandbox */
	bool end_awaited;          /* the host need not report exec if the end comes soon: its report implies it */
};

/* The current line settings of a terminal. */
struct port_line {
	bool echo, canonical;
	unsigned char eof; /* the character that ends input in canonical mode; 0 = none */
};

/* Identifies the policy files that apply to a request. */
struct policy_key {
	uint32_t uid;
	int peer_fd; /* the client's socket: files are opened with its peer's identity */
	const char *workspace, *home;
	uint64_t since_ns; /* files read after this time are fresh; 0 = fresh only if unchanged on disk */
};

/* A folder whose repository is searched for. */
struct git_key {
	uint32_t uid;
	int peer_fd; /* as above */
	const char *folder, *home;
	uint64_t since_ns; /* a search after this time counts, and its failure; 0 = any */
};

/* Rules to be added to the user's policy file. */
struct port_rule {
	uint32_t uid;
	int peer_fd;
	const char *list;        /* allow, deny */
	const char *const *rule; /* "Bash(npm test)" … */
	size_t count;
	const char *id; /* passed back to engine_on_rule_written */
};

/* A TCP port of a sandbox that is reachable on the host. */
struct port_publication {
	const char *address;      /* on the host, without brackets */
	uint16_t host_port, port; /* host_port 0 = the host chooses */
};

/* A request for the screen of a terminal. Valid only during the call. */
struct port_screen_request {
	const char *id, *process_id; /* id: passed back to engine_on_screen */
	uint32_t uid;                /* whose processes may be shown */
	bool wait;                   /* until one of these is met, or the process has ended */
	const char *text, *regex;    /* or NULL */
	uint64_t idle_ms;            /* UINT64_MAX = none */
	uint64_t timeout_ms;
};
struct port_screen {
	const char *process_id, *text;
	unsigned rows, cols, cursor_row, cursor_col; /* the cursor from 0 */
	bool timed_out, ended;
};

struct ports {
	uint64_t (*real_us)(void *host);
	uint64_t (*boot_ns)(void *host);
	/* Requests engine_tick at this time (CLOCK_BOOTTIME). The earliest request wins until the tick. */
	void (*wake_at)(void *host, uint64_t boot_ns);
	/* The base environment of this uid's commands: "K=V" strings, each terminated by NUL. */
	void (*base_env)(void *host, uint32_t uid, struct buf *out);

	/* A client of this uid connected. Its socket (duplicated) proves the identity to the spawner, also later. */
	void (*add_peer)(void *host, uint32_t uid, int peer_fd);
	/* Such a socket (borrowed); −1 if no client of this uid has connected since the guard started. */
	int (*find_peer)(void *host, uint32_t uid);

	/* Answered by engine_on_started or engine_on_launch_failed. The plan is copied; peer_fd is duplicated. */
	void (*launch)(void *host, const char *id, const void *plan, size_t plan_len, uint32_t flags,
		       const struct port_streams *streams, int peer_fd);
	void (*open_gate)(void *host, const char *id);
	void (*signal)(void *host, const char *id, int sig); /* the init sends it to the command */
	void (*kill_tree)(void *host, const char *id);       /* the init kills its tree and reports the outcome */
	void (*kill)(void *host, const char *id);            /* the guard kills the init itself */
	/* >0 = bytes written; 0 = the pipe or terminal is full and engine_on_stdin_room follows; −1 with errno. */
	ssize_t (*write_stdin)(void *host, const char *id, const void *p, size_t n);
	void (*close_stdin)(void *host, const char *id);
	/* Only for a process with a terminal; −1 with errno. */
	int (*line)(void *host, const char *id, struct port_line *ret);
	int (*resize)(void *host, const char *id, uint32_t rows, uint32_t cols);
	/* Reads output received so far; −1 with errno. A short read means the end of what was received. */
	ssize_t (*peek_output)(void *host, const char *id, int stream, uint64_t offset, void *p, size_t n);
	int (*output_fd)(void *host, const char *id, int stream); /* the spool file; −1 if there is no output yet */
	void (*stop_reading)(void *host, const char *id);         /* the drain deadline has passed */
	/* Closes the stream for good: a process that writes to it gets SIGPIPE. Not for terminals. */
	void (*close_output)(void *host, const char *id, int stream);
	/* The end is committed: free all state of the process. The spool files of `unspilled` streams (bits 1u <<
	 * stream) are no longer needed, because the database has their bytes. */
	void (*release)(void *host, const char *id, unsigned unspilled);
	/* Discards the changes of a copy-on-write run. 0: engine_on_discarded follows, later. May be NULL. */
	int (*discard_changes)(void *host, const char *id, uint32_t uid);
	/*
	 * Copies what a copy-on-write run changed, or a checkpoint of it, to the id of a new checkpoint or of a process
	 * that is about to start with it. 0: engine_on_copied follows, later. May be NULL.
	 */
	int (*copy_changes)(void *host, const char *from, const char *to);
	/* Removes a checkpoint, or a copy for a process that did not start. May be NULL. */
	void (*drop_changes)(void *host, const char *id);
	/* The tree has terminated. true: reports of violations may still arrive; engine_on_reports_complete follows.
	 * May be NULL. */
	bool (*settle)(void *host, const char *id);
	/* Requests that the policy files are read again, as with SIGHUP. Returns the token that engine_policy_loaded
	 * gets for files that were opened afterwards. May be NULL. */
	uint32_t (*want_reload)(void *host);
	/*
	 * The rules for a uid in a workspace ("" = none), including the files of the user and of the workspace. May be
	 * NULL. 0: *ret is valid until control returns to the event loop. 1: the files are being read;
	 * engine_on_policy follows. −1: the rules are unavailable, with the reason in e.
	 */
	int (*policy_of)(void *host, const struct policy_key *place, const struct policy_rules **ret, struct err *e);
	/* The known repositories of this uid's workspace: nested paths that are protected like its own, and the git
	 * directory that its .git file leads to, both as in struct profile_paths. May be NULL. */
	void (*repos_of)(void *host, uint32_t uid, const char *workspace, struct buf *nested, struct buf *git);
	/* The rules of this uid's workspace, as far as they are known, possibly outdated. May be NULL. */
	const struct policy_rules *(*rules_of)(void *host, uint32_t uid, const char *workspace);
	/*
	 * The nearest directory with .git, from a folder (clean) up; "" = none. Does not wait for a file system. 0. 1:
	 * it is being searched for; engine_on_policy for the folder follows. −1: it cannot be known, with the reason in
	 * e. May be NULL: none.
	 */
	int (*git_of)(void *host, const struct git_key *at, char ret[PATH_MAX], struct err *e);
	/* Adds rules to the user's policy file. 0: engine_on_rule_written follows. −1: not possible. May be NULL. */
	int (*write_rule)(void *host, const struct port_rule *rule, struct err *e);
	/*
	 * A root client authorises commands in these directories (each terminated by NUL), also after it disconnects.
	 * `hold`: delay the reply until the spawner has recorded this, so that the client does not disconnect too
	 * early. May be NULL.
	 */
	void (*authorise)(void *host, int peer_fd, const char *paths, size_t len, bool hold);
	/*
	 * Announces a request that is likely to be launched, so that the host can prepare a sandbox of this kind (equal
	 * hints) in parallel with the decision. The result is passed to `launch` if that follows within the same call.
	 * NULL: the host does not prepare anything.
	 */
	struct port_expected (*expect)(void *host, uint64_t hint);
	/*
	 * Publishes a port of this running process's sandbox until its end. 0: engine_on_published follows. −1 with
	 * errno. It survives the proxy, but not this runtime: a new one publishes again. May be NULL.
	 */
	int (*publish)(void *host, const char *id, const struct port_publication *p);
	/* 0: engine_on_unpublished follows, once its connections are closed. 1: it was not published. May be NULL. */
	int (*unpublish)(void *host, const char *id, uint16_t port);
	/* 0: engine_on_screen follows; this port alone may call it before it returns. −1: the request is invalid. May
	 * be NULL. */
	int (*screen)(void *host, const struct port_screen_request *r, struct err *e);
	/*
	 * The guard kills the init at this time (CLOCK_BOOTTIME), also if the runtime is stopped or dead by then; a
	 * later call moves that time. Not for members of a sandbox, which have no init of their own. May be NULL.
	 */
	void (*limit)(void *host, const char *id, uint64_t boot_ns);
};

/* A process that the guard has kept across a restart of the runtime. */
struct port_held {
	const char *id;
	uint32_t attempt;
	bool started;    /* its init was cloned */
	bool exited;     /* … and has exited since; its status socket has the outcome */
	unsigned closed; /* streams that were closed (bits 1u << stream): no more output from them */
	bool watched;    /* it was started with exact reports of violations */
};
/* For recovery: `adopt` takes over the process that the guard holds, `abandon` ends and forgets it. */
struct recovery_ports {
	void (*adopt)(void *host, const struct port_held *h, const struct port_streams *streams,
		      uint64_t size[STREAM_COUNT]);
	void (*abandon)(void *host, const struct port_held *h);
	/* A lost process: makes its spool files readable until `release`. */
	void (*salvage)(void *host, const char *id, const struct port_streams *streams, uint64_t size[STREAM_COUNT]);
};
/*
 * Adopts or ends every process that is live according to the log, records history.reconstructed (in a new store: the
 * system session instead) and waits until that is durable. Must be the first call after engine_new.
 */
int engine_recover(struct engine *engine, const struct recovery_ports *ports, const struct port_held *held,
		   size_t ndeferred, struct err *e);
/*
 * Called after engine_recover, once the policy is loaded and before clients connect. Ends or continues work that the
 * restart interrupted, which may start processes. Waits until the resulting facts are durable.
 */
void engine_resume(struct engine *engine);

/* ---- reports from the host ---- */

struct port_started {
	int32_t pid;
	uint64_t start_time;
	uint32_t layers; /* in effect since the clone */
	uint32_t attempt;
};
void engine_on_started(struct engine *engine, const char *id, const struct port_started *s);
/* `path`: what the error concerns, or "". Without an error it says itself why the process did not start. */
void engine_on_launch_failed(struct engine *engine, const char *id, uint32_t step, int error, enum err_reason reason,
			     const char *path);
void engine_on_ready(struct engine *engine, const char *id, uint32_t layers);
void engine_on_execed(struct engine *engine, const char *id);
/* Only with keepTree: the command has exited and its descendants continue. May be reported more than once. */
void engine_on_command_exited(struct engine *engine, const char *id, const struct status_msg *m);
/* The init's report on autorun files (sandbox/autorun_report.h), before engine_on_exited or engine_on_gone. Only the
 * first one counts. */
void engine_on_autorun(struct engine *engine, const char *id, const void *report, size_t len);
/* The init sent its last message, FAILED or EXITED; engine_on_gone follows. */
void engine_on_exited(struct engine *engine, const char *id, const struct status_msg *last);
/* The init is dead, and with it its whole tree. `last` is its last message, FAILED or EXITED; NULL if it was killed. */
void engine_on_gone(struct engine *engine, const char *id, const struct status_msg *last);
void engine_on_output(struct engine *engine, const char *id, int stream, uint64_t size);
void engine_on_output_end(struct engine *engine, const char *id, int stream);
/* Output stays in the pipe because it cannot be written (error, such as ENOSPC), or continues (0). */
void engine_on_output_stalled(struct engine *engine, const char *id, int stream, int error);
void engine_on_stdin_room(struct engine *engine, const char *id);
/* The sandbox blocked an operation. */
void engine_on_violation(struct engine *engine, const char *id, const struct violation *v);
/* Some violations of this process may have gone unreported. */
void engine_on_violations_missed(struct engine *engine, const char *id);
/* After `settle`: all violations of this process have been reported. */
void engine_on_reports_complete(struct engine *engine, const char *id);
/* Connections through the proxy have ended. The numbers are increments since the last report for this host and port. */
struct port_traffic {
	const char *host;
	uint32_t port;
	uint64_t connections, sent, received;
};
void engine_on_traffic(struct engine *engine, const char *id, const struct port_traffic *t);
/* A port is published (error 0), or could not be. An error may also follow later, if the proxy had to be restarted. */
void engine_on_published(struct engine *engine, const char *id, uint16_t port, uint16_t host_port, int error);
void engine_on_unpublished(struct engine *engine, const char *id, uint16_t port);
/* Connections to a published port have ended: increments, `host` is NULL. sent: by the sandbox. */
void engine_on_port_traffic(struct engine *engine, const char *id, const struct port_traffic *t);
/* The TCP ports on which this process's sandbox listens have changed. */
void engine_on_ports(struct engine *engine, const char *id, const struct status_ports *ports);
/* The answer to request `id` for a screen; e != NULL: there is none. */
void engine_on_screen(struct engine *engine, const char *id, const struct port_screen *s, const struct err *e);
/* The copy to this id is complete and durable; e != NULL: there is none. */
void engine_on_copied(struct engine *engine, const char *to, const struct err *e);
/* The policy files for this uid and workspace were read, or the folder was searched, with or without success. */
void engine_on_policy(struct engine *engine, uint32_t uid, const char *workspace);
/* The rules of request `id` (port_rule) are in this file, the first at this line, and in effect; e != NULL: failed. */
void engine_on_rule_written(struct engine *engine, const char *id, const char *file, unsigned line,
			    const struct err *e);
void engine_tick(struct engine *engine);

/* Ends all live processes (reason "shutdown") and calls `done` when all ends are recorded. Rejects new starts. */
void engine_stop(struct engine *engine, void (*done)(void *ctx), void *ctx);

/* Logs a message and records it as runtime.warning in the system session. */
void engine_warn(struct engine *engine, const char *code, const char *advice, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* After store_dispatch: records that the store has become full. */
void engine_check_space(struct engine *engine);

#endif
