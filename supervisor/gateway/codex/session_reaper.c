/*
 * The pipe carries NUL-terminated session ids: the last one is the session to reap, and an empty string cancels. Its
 * end of file means that the gateway is dead, however it died; a signal or a pid would not be as reliable.
 *
 * The reaper is forked before the gateway enters its sandbox and has no sandbox itself; it reads nothing but this pipe
 * and the daemon's replies.
 */

#include "supervisor/gateway/codex/session_reaper.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Longer than any session id. More bytes without a NUL are a broken gateway, and nothing is terminated for it. */
#define LINE_BYTES 72
#define PAGE 1000

void session_reaper_set_session(int fd, const char *session_id)
{
	if (fd >= 0)
		(void)!write(fd, session_id, strlen(session_id) + 1);
}

void session_reaper_cancel(int fd)
{
	if (fd >= 0)
		(void)!write(fd, "", 1);
}

/* Waits until the gateway has died. True with the session's id; false if there is nothing to do. */
static bool await_death(int fd, char *id, size_t cap)
{
	char text[LINE_BYTES];
	size_t have = 0;
	bool have_id = false;

	for (;;) {
		ssize_t n = read(fd, text + have, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return have_id;
		if (text[have] || !have) {
			if (!text[have])
				return false; /* an empty string: cancelled */
			if (++have == sizeof(text))
				return false;
			continue;
		}
		(void)snprintf(id, cap, "%s", text);
		have_id = true;
		have = 0;
	}
}

static bool call_method(struct remote *r, const char *method, const char *session_id, const char *flag,
			struct remote_answer *ret)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kstr(&w, "sessionId", session_id);
	if (flag)
		jw_kbool(&w, flag, true);
	jw_kuint(&w, "limit", PAGE);
	jw_obj_end(&w);
	return remote_call(r, method, &params, ret, &e) == 0;
}

/* Whether the client has returned: it resumed the session through another gateway, which has its own reaper. */
static bool has_client(struct remote *r, const char *session_id)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;

	if (!call_method(r, "list_channels", session_id, NULL, &a))
		return true; /* unknown, so do nothing */
	for (struct jiter it = jiter_on(jval_get(a.result, "channels")); jiter_next(&it);)
		if (jval_is_str(jval_get(it.value, "status"), "connected"))
			return true;
	return false;
}

/* Best effort: an error of one does not keep the others. */
static void end_each(struct remote *r, const struct remote_answer *all, const char *list, const char *member,
		     const char *method)
{
	for (struct jiter it = jiter_on(jval_get(all->result, list)); jiter_next(&it);) {
		remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
		buf_auto struct buf params = BUF_INIT;
		struct jw w = jw_on(&params);
		struct err e = ERR_INIT;
		char id[72];

		jval_str(jval_get(it.value, member), id, sizeof(id));
		jw_obj(&w);
		jw_kstr(&w, member, id);
		if (strcmp(method, "terminate_process") == 0)
			jw_kstr(&w, "reason", "its client has gone");
		remote_key(r, &w);
		jw_obj_end(&w);
		(void)remote_call(r, method, &params, &a, &e);
	}
}

static void end_session(struct remote *r, const char *session_id)
{
	remote_answer_auto struct remote_answer processes = REMOTE_ANSWER_INIT, sandboxes = REMOTE_ANSWER_INIT;

	if (call_method(r, "list_processes", session_id, "liveOnly", &processes))
		end_each(r, &processes, "processes", "processId", "terminate_process");
	if (call_method(r, "list_sandboxes", session_id, NULL, &sandboxes))
		end_each(r, &sandboxes, "sandboxes", "sandboxId", "close_sandbox");
}

static void reap_session(int fd, uint64_t linger_ms)
{
	const struct remote_options o = { 0 };
	struct timespec left = { .tv_sec = (time_t)(linger_ms / 1000), .tv_nsec = (long)(linger_ms % 1000 * 1000000) };
	struct err e = ERR_INIT;
	struct remote *r;
	char id[72];

	if (!await_death(fd, id, sizeof(id)))
		return;
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	if (remote_open(&o, &r, &e) < 0)
		return; /* the daemon is gone, and its processes with it */
	if (!has_client(r, id))
		end_session(r, id);
	remote_free(r);
}

int session_reaper_start(uint64_t linger_ms)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		/*
		 * A new session, so that signals to the client's process group do not reach it. It must not keep
		 * descriptors open whose end the client waits for.
		 */
		(void)setsid();
		close(ends[1]);
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int i = 0; null >= 0 && i < 3; i++)
			(void)dup2(null, i);
		signal(SIGINT, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		reap_session(ends[0], linger_ms);
		_exit(0);
	}
	close(ends[0]);
	if (pid < 0) {
		close(ends[1]);
		return -1;
	}
	return ends[1];
}
