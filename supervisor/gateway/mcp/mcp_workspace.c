#include "supervisor/gateway/mcp/mcp_workspace.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/file_uri.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define THING_MAX 2000
#define REASON_MAX 500
#define ENV_MAX 1000
#define DATA_MAX 800 /* of stdin and of contents written to a file */

int mcp_workspace_folder(const struct mcp_session *m, const char *root, char ret[PATH_MAX], struct err *e)
{
	const char *given = mcp_session_config(m)->cwd ? mcp_session_config(m)->cwd : root;
	buf_auto struct buf path = BUF_INIT;
	char here[PATH_MAX];

	if (!given || given[0] != '/') {
		if (!getcwd(here, sizeof(here)))
			return err_sys(e, errno, "the working directory");
		buf_str(&path, here);
	}
	if (given)
		buf_printf(&path, "%s%s", path.len ? "/" : "", given);
	return path_clean(path.data, ret, e);
}

static int own_folder(const struct mcp_call *c, char ret[PATH_MAX], struct err *e)
{
	return mcp_workspace_folder(c->mcp, mcp_call_root(c), ret, e);
}

static const char *home_folder(void)
{
	const struct passwd *pw = getpwuid(getuid());

	return pw && pw->pw_dir ? pw->pw_dir : "/";
}

/* The directory can be a workspace: it is not /, the home directory or a parent of it, and is writable. */
static bool mcp_workspace_is_tree(const char *folder)
{
	return folder[0] == '/' && folder[1] && !path_within(folder, home_folder()) && access(folder, W_OK) == 0;
}

static bool mcp_workspace_has_tree(const struct mcp_call *c)
{
	struct err ignored = ERR_INIT;
	char folder[PATH_MAX];

	return own_folder(c, folder, &ignored) == 0 && mcp_workspace_is_tree(folder);
}

/*
 * Walks up to the directory with .git, as the daemon does, but stops below the home directory and below shared
 * directories (/tmp).
 */
static void widen_to_tree(char path[PATH_MAX], const char *home)
{
	char at[PATH_MAX], name[PATH_MAX + 8];
	struct stat st;

	snprintf(at, sizeof(at), "%s", path);
	while (at[1] && !path_within(at, home)) {
		if (lstat(at, &st) < 0 || st.st_mode & S_ISVTX)
			return;
		snprintf(name, sizeof(name), "%s/.git", at);
		if (lstat(name, &st) == 0) {
			memcpy(path, at, sizeof(at));
			return;
		}
		if (!path_up(at))
			return;
	}
}

/*
 * A command may write to the workspace of its directory, so the choice of the directory decides what may be written.
 * That is up to the user, who started the client in a workspace, not to the agent. If the client was started outside of
 * any workspace (in the home directory, say, as a service is), the agent has to choose.
 */
bool mcp_workspace_is_own(const struct mcp_call *c, const char *path, char ret_tree[PATH_MAX])
{
	struct err e = ERR_INIT;

	if (own_folder(c, ret_tree, &e) < 0)
		return false;
	if (!mcp_workspace_is_tree(ret_tree))
		return true;
	widen_to_tree(ret_tree, home_folder());
	return path_within(ret_tree, path);
}

int mcp_workspace_path(const struct mcp_call *c, const char *given, char ret[PATH_MAX], struct err *e)
{
	char own[PATH_MAX];
	mem_auto char *path = NULL;

	if (own_folder(c, own, e) < 0)
		return -1;
	if (given && given[0] != '/')
		path = mem_printf("%s/%s", own, given);
	return path_clean(path ? path : given ? given : own, ret, e);
}

void mcp_workspace_profile(const struct mcp_call *c, const char *given, json_t *params)
{
	const char *profile = given ? given : mcp_session_config(c->mcp)->profile;

	if (profile)
		json_object_set_new(params, "profile", json_string(profile));
}

/*
 * A long text is shown by its head and tail, since padding could otherwise hide what follows it, and a separate line
 * says that something is omitted. The text itself cannot start a new line.
 */
static void show_text(struct buf *out, const char *text, size_t n, size_t most)
{
	size_t head, tail = n - most / 3;

	if (n <= most)
		return text_sanitize_line(text, n, out);
	head = text_utf8_cut(text, most - most / 3);
	while (tail < n && ((unsigned char)text[tail] & 0xc0) == 0x80)
		tail++;
	text_sanitize_line(text, head, out);
	buf_printf(out, " … [%zu bytes left out] … ", tail - head);
	text_sanitize_line(text + tail, n - tail, out);
	buf_printf(out, "\n(NOT ALL OF THIS IS SHOWN: %zu of its %zu bytes, in the middle, are left out)", tail - head,
		   n);
}

static void append_line(struct buf *out, const char *before, const char *text, size_t most)
{
	if (!text || !*text)
		return;
	buf_str(out, before);
	show_text(out, text, strlen(text), most);
}

/* Values may be secrets; the names are sufficient. */
static void show_env(struct buf *out, json_t *env)
{
	buf_auto struct buf names = BUF_INIT;
	const char *name;
	json_t *value;

	json_object_foreach (env, name, value)
		buf_printf(&names, "%s%s", names.len ? ", " : "", name);
	if (!names.len)
		return;
	buf_printf(out, "\nwith %zu environment variable%s: ", json_object_size(env),
		   json_object_size(env) == 1 ? "" : "s");
	show_text(out, names.data, names.len, ENV_MAX);
}

static void show_data(struct buf *out, const char *name, const json_t *data, bool base64)
{
	buf_auto struct buf plain = BUF_INIT;
	const char *text = json_string_value(data);
	size_t n = json_string_length(data);

	if (!text)
		return;
	if (base64 && text_base64_decode(text, n, &plain) == 0) {
		text = buf_cstr(&plain);
		n = plain.len;
	}
	buf_printf(out, "\n%s, %zu byte%s%s", name, n, n == 1 ? "" : "s", n ? ": " : "");
	show_text(out, text, n, DATA_MAX);
}

void mcp_workspace_question(const struct mcp_call *c, const char *what, const char *thing, size_t len,
			    const json_t *started, struct buf *out)
{
	const json_t *decision = json_object_get(started, "permissionDecision");
	const char *encoding = json_get_string(c->arguments, "encoding");
	const char *changed = json_object_get(decision, "updatedInputRef") ? json_get_string(started, "prompt") : NULL;
	char cwd[PATH_MAX];
	struct err e = ERR_INIT;

	buf_str(out, what);
	if (changed) {
		/* A hook changed the command: show what will run, not what the client requested. */
		append_line(out, "\nchanged by a hook: ", changed, THING_MAX);
	} else if (len) {
		buf_str(out, "\n");
		show_text(out, thing, len, THING_MAX);
	}
	show_env(out, json_object_get(c->arguments, "env"));
	show_data(out, "its stdin", json_object_get(c->arguments, "stdin"), false);
	if (!changed)
		show_data(out, "the content", json_object_get(c->arguments, "content"),
			  encoding && strcmp(encoding, "base64") == 0);
	if (mcp_workspace_path(c, json_get_string(c->arguments, "cwd"), cwd, &e) == 0)
		append_line(out, "\nin ", cwd, sizeof(cwd));
	append_line(out, "\nbecause ", json_get_string(decision, "decisionReason"), REASON_MAX);
	append_line(out, "\nharm: it ", json_get_string(decision, "impact"), REASON_MAX);
	append_line(out, "\nthe agent's reason: ", json_get_string(c->arguments, "justification"), REASON_MAX);
}

/* ---- the client's roots ---- */

#define ROOTS_MS 10000u /* the client answers without asking its user */

void mcp_roots_forget(struct mcp_session *m)
{
	free(mem_take(&m->root));
	m->roots_known = false;
}

/* The first root that is a usable directory on this machine; NULL if there is none. */
static char *usable_root(const json_t *answer)
{
	char path[PATH_MAX];
	struct stat st;
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(answer, "roots"), i, one) {
		const char *uri = json_get_string(one, "uri");
		struct err ignored = ERR_INIT;

		if (uri && strlen(uri) == json_string_length(json_object_get(one, "uri")) &&
		    file_uri_path(uri, path, &ignored) == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
		    mcp_workspace_is_tree(path))
			return mem_strdup(path);
	}
	return NULL;
}

static void on_roots(struct mcp_call *c)
{
	struct mcp_call_private *p = c->priv;
	char *root = usable_root(mcp_call_answer(c, "roots"));

	mcp_question_done(p); /* later questions are separate */
	p->ask_ms = 0;
	if (p->era == MCP_MODERN) {
		p->root = root;
	} else {
		mcp_roots_forget(c->mcp);
		c->mcp->root = root;
		c->mcp->roots_known = true;
		if (root)
			gateway_session_retitle(c->up, root);
	}
	p->roots_then(c);
}

void mcp_roots_then(struct mcp_call *c, mcp_call_fn then)
{
	struct mcp_call_private *p = c->priv;
	const struct mcp_config *config = mcp_session_config(c->mcp);
	const char *kept = json_get_string(c->kept, MCP_ROOT);

	if (kept)
		p->root = mem_strdup(kept);
	if (config->cwd || (!config->away && mcp_workspace_has_tree(c)) || kept || mcp_call_approving(c) ||
	    (p->era == MCP_LEGACY && c->mcp->roots_known) || !mcp_call_can(c, "roots")) {
		then(c);
		return;
	}
	p->roots_then = then;
	p->ask_ms = ROOTS_MS;
	mcp_call_question(c, "roots", "roots/list", json_object());
	mcp_call_ask(c, NULL, on_roots);
}
