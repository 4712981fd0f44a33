#ifndef BAILIFF_TOOL_MCP_RUNNER_H
#define BAILIFF_TOOL_MCP_RUNNER_H

/*
 * An MCP server that outlives the call that started it. The first call leaves a process, the runner, in the sandbox: it
 * starts the server, and later calls reach it over a socket in /tmp. It is a descendant of that call's process, so it
 * ends when this process is ended or the sandbox is closed, and no other part of bailiff knows it. If there is none,
 * or it has died, a call starts another one.
 *
 * The runner serves one caller at a time: it writes a line of JSON when it is ready, reads a line with the parameters
 * of tools/call, and writes a line with the result. A caller that gets no first line has sent nothing and may try
 * again.
 */

struct err;

/* In the runner: serves the callers that connect to the listener, until the server ends. */
typedef void mcp_runner_fn(void *ctx, int listener);
/* A connection to the runner with this key, which is started if there is none; −1 with e. */
int mcp_runner_connect(const char *key, mcp_runner_fn *serve, void *ctx, struct err *e);
/* The next caller of a runner, or −1: it is gone, or another user. */
int mcp_runner_accept(int listener);

#endif
