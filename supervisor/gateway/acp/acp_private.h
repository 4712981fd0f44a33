#ifndef BAILIFF_GATEWAY_ACP_PRIVATE_H
#define BAILIFF_GATEWAY_ACP_PRIVATE_H

/* What the files of this folder share. */

#include "supervisor/gateway/acp/acp_server.h"
#include "supervisor/gateway/common/gateway_session.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <limits.h>
#include <stdint.h>
#include <sys/queue.h>

#define ACP_ID_MAX 80

enum { ACP_NOT_FOUND = -32002 };

struct acp_session;
TAILQ_HEAD(acp_session_list, acp_session);
struct acp_list;
TAILQ_HEAD(acp_list_list, acp_list);
struct acp_read;
TAILQ_HEAD(acp_read_list, acp_read);
struct acp_buffer;
TAILQ_HEAD(acp_buffer_list, acp_buffer);
struct acp_question;
TAILQ_HEAD(acp_question_list, acp_question);

struct acp_server {
	struct event_base *base;
	struct acp_options o;
	struct acp_server_ops ops;
	void *ctx;
	bool initialized;
	char *client_name, *client_version;
	bool terminals; /* the editor shows the output of commands that the agent runs itself */
	bool forms;     /* the editor can ask for text (elicitation) */
	struct acp_session_list sessions;
	size_t nsessions;
	struct acp_list_list lists;
	struct gateway_session *lister; /* the connection of all lists; NULL: there is no list */
	bool buffers;                   /* the editor can read files, with changes that are not saved */
	uint64_t requests;              /* sent so far */
};

/* A request that opens a session is answered when the session is ready. */
enum acp_opening { ACP_OPEN, ACP_NEW, ACP_LOAD, ACP_RESUME };

/* How the files below acp_session report to it: calls go down only. */
struct acp_session_ops {
	void (*turn_ended)(struct acp_session *s, const json_t *event);
	void (*args_read)(struct acp_session *s); /* a read of long arguments has ended */
	void (*opened)(struct acp_session *s);    /* the conversation was replayed */
	void (*open_failed)(struct acp_session *s, const char *what, const json_t *error); /* frees the session */
	void (*servers_known)(struct acp_session *s); /* the editor's MCP servers were added, or were not */
};

struct acp_session {
	TAILQ_ENTRY(acp_session) entry;
	struct acp_server *server;
	const struct acp_session_ops *ops;
	struct gateway_session *up;
	char id[ACP_ID_MAX], cwd[PATH_MAX], mode[32];
	enum acp_opening opening;
	json_t *opening_id;
	json_t *notice;  /* text that precedes the next answer; or NULL */
	json_t *servers; /* mcpServers of the editor; or NULL */
	size_t next_server;
	bool adding_servers, add_servers_again;
	struct event *server_timer; /* a prompt waits for them; or NULL */
	json_t *mode_id;            /* of the request session/set_mode that is not answered yet; or NULL */

	/* session/load */
	json_t *replayed; /* turns of the loop that were found so far, as members */
	json_t *page;     /* of events; the next one to apply is at `at` */
	size_t at;
	json_int_t after; /* sequence number of the last event */
	bool last_page;
	bool reading; /* the text of a prompt */

	/* The prompt; prompt_id NULL = none. */
	json_t *prompt_id;
	json_t *prompt;                /* its parts, to be submitted when the daemon is back; or NULL */
	char last_turn_id[ACP_ID_MAX]; /* of the last prompt, also when it has ended */
	char turn_id[ACP_ID_MAX];      /* "" until submit_turn was answered … */
	json_t *backlog;               /* … events that arrive until then; or NULL */
	bool cancelled;
	json_t *ending; /* turn.completed or turn.failed, while `args` is not empty; or NULL */

	/* What is shown of the turn. */
	bool compacting;           /* the current request summarizes the conversation: not part of the answer */
	bool shown;                /* a part of the current answer was sent */
	json_t *calls;             /* toolCallId: {name, title, content, output, sandbox, ended} */
	json_t *subagents;         /* their turns, as members */
	struct acp_read_list args; /* of calls, that are being read */
	struct acp_question_list questions;
	struct acp_buffer_list buffers;
};

/* ---- acp_message ---- */

/* Both take ownership of the JSON. `id` is borrowed. */
void acp_reply(struct acp_server *s, const json_t *id, json_t *result);
void acp_fail(struct acp_server *s, const json_t *id, int code, json_t *data, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The daemon's error, or the connection's. */
void acp_fail_with(struct acp_server *s, const json_t *id, const char *what, const json_t *error);
/* Sends a request; takes ownership of `params`. Returns its number, which its id contains. */
uint64_t acp_request(struct acp_server *s, const char *method, json_t *params);
json_t *acp_request_id(uint64_t number);
uint64_t acp_request_number(const json_t *id); /* 0 = not one of these */
/* Takes ownership of `update`, an object with sessionUpdate. */
void acp_message_update(struct acp_session *s, json_t *update);
void acp_message_text(struct acp_session *s, const char *kind, const char *text, size_t n, const char *message_id);

/* ---- requests of the editor: acp_server, acp_session and acp_list ---- */

#define METHOD(name, of_session, run) \
	void run(struct acp_server *s, struct acp_session *session, const json_t *id, const json_t *params);
#include "supervisor/gateway/acp/acp_methods.def"
#undef METHOD

/* ---- acp_session ---- */

void acp_session_cancel(struct acp_session *s);
void acp_session_free(struct acp_session *s);

/* ---- acp_servers ---- */

/* Whether mcpServers of a request are well-formed; absent is. */
int acp_servers_check(const json_t *servers, struct err *e);
/* There is a new connection: adds the MCP servers of the editor to the session, one after the other. */
void acp_servers_connect(struct acp_session *s);
/* True: `servers_known` follows. */
bool acp_servers_waiting(const struct acp_session *s);
void acp_servers_done(struct acp_session *s);

/* ---- acp_list ---- */

void acp_list_free(struct acp_list *l);

/* ---- acp_replay ---- */

void acp_replay_start(struct acp_session *s);
/* A read has ended: continues if the replay waits for it. */
void acp_replay_continue(struct acp_session *s);

/* ---- acp_update ---- */

/* One event of the turn that is shown, live or replayed. */
void acp_update_event(struct acp_session *s, const json_t *event);
/* An event of another turn: of that of a subagent, calls and questions are shown. */
void acp_update_other(struct acp_session *s, const json_t *event);
/* Forgets what was shown; before each turn. */
void acp_update_reset(struct acp_session *s);
void acp_update_done(struct acp_session *s);
bool acp_update_handles(struct jval type);
json_t *acp_update_types(void);

/* ---- acp_question ---- */

void acp_question_ask(struct acp_session *s, const json_t *event);
/* The action was answered by another client: withdraws the question. */
void acp_question_withdraw(struct acp_session *s, const char *action_id);
void acp_question_withdraw_all(struct acp_session *s);
void acp_question_response(struct acp_server *s, uint64_t number, const json_t *result, const json_t *error);

/* ---- acp_buffer ---- */

/* A tool asks for the text of a file. `profile`: of its sandbox, as in sandbox.applied; or NULL. */
void acp_buffer_request(struct acp_session *s, const char *process_id, const json_t *profile, const char *line);
/* True: it was the answer to such a request. `result` NULL: the editor has no text. */
bool acp_buffer_response(struct acp_server *server, uint64_t number, const json_t *result);
void acp_buffer_drop_all(struct acp_session *s);

/* ---- acp_content ---- */

struct buf;
/* The blocks of a prompt as parts of a turn: one text, and images. New reference; NULL with ERR_INVALID, which names
 * the block. */
json_t *acp_content_prompt(const json_t *blocks, struct err *e);
/* kind, title, locations, rawInput and, for changes of files, diffs as content. `args` may be NULL. */
json_t *acp_content_call(const char *tool, const json_t *args, const char *cwd);
bool acp_content_is_edit(const char *tool);
json_t *acp_content_text(const char *text, size_t n); /* {type: content, content: {type: text}} */

#endif
