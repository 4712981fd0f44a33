#ifndef BAILIFF_ENGINE_PROCESS_TOOLS_H
#define BAILIFF_ENGINE_PROCESS_TOOLS_H

/*
 * Commands of the shell tool that outlive their call, and the tools for them.
 *
 * A call of the shell with `background` or `yieldMs` ends before its process: its result names the process, which
 * continues and still belongs to the call (OWNER_TOOL). wait, write_stdin, screen, kill and ps are about such processes
 * of the same thread. A call of these ends when its process does, when its time is over, or when its turn is
 * interrupted. After a restart, wait and screen are evaluated again with the time that is left; input and signals are
 * reported as lost, because they may have been sent.
 *
 * These processes do not keep their turn open and survive its interruption. They end with their sandbox, when their
 * session is archived, by interrupt_turn with endProcesses, or with the turn if it has that option.
 */

#include "runtime/view/view_documents.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct caller;
struct engine;
struct err;
struct process;
struct scope;
struct session_updated;
struct transaction;
struct turn_completed;
struct turn_failed;

#define PROCESS_TOOLS_MAX 16u /* commands of a thread that run in the background */

/* Whether the call of this live process has ended before its command. */
bool process_in_background(struct process *p);
/* Whether the thread may have one more. `args` are those of the shell. */
int process_tools_check(struct engine *engine, const char *thread_id, const json_t *args, struct err *e);
/* The process of a call of the shell is starting: it may have to be left running later. */
void process_tools_started(struct process *p);
/* The command of this call, or all that it started, has ended. */
void process_tools_over(struct engine *engine, const char *call_id);

/* Ends those of a thread, at the request of a client. */
void process_tools_end(struct engine *engine, const char *thread_id, const struct caller *c);

/* The tools. The call has begun, and the arguments match the schema. */
void process_tool_wait(struct engine *engine, const struct tool_call_doc *d, const json_t *args);
void process_tool_write_stdin(struct engine *engine, const struct tool_call_doc *d, const json_t *args);
void process_tool_screen(struct engine *engine, const struct tool_call_doc *d, const json_t *args);
void process_tool_kill(struct engine *engine, const struct tool_call_doc *d, const json_t *args);
void process_tool_ps(struct engine *engine, const struct tool_call_doc *d);

/* ---- rows of modules.def ---- */

void process_tools_recover(struct engine *engine);
void process_tools_done(struct engine *engine);
uint64_t process_tools_tick(struct engine *engine, uint64_t now);
void process_tools_on_session_updated(struct transaction *tx, const struct scope *s, const struct session_updated *p);
void process_tools_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p);
void process_tools_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p);

#endif
