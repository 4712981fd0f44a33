#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)

static void on_session(void *ctx, struct jval s)
{
	struct format_list *l = ctx;
	buf_auto struct buf ago = BUF_INIT, title = BUF_INIT;
	char id[ID_LOOKUP_MAX], kind[32];

	if (format_list_takes(l, s))
		return;
	jval_str(jval_get(s, "sessionId"), id, sizeof(id));
	jval_str(jval_get(s, "kind"), kind, sizeof(kind));
	format_ago(jval_get(s, "updatedAt"), l->now_us, &ago);
	jval_str_buf(jval_get(s, "title"), &title);
	format_table_cell(&l->table, FORMAT_PLAIN, id);
	format_table_cell(&l->table, FORMAT_DIM, kind[0] ? kind : "-");
	format_table_cell(&l->table, FORMAT_DIM, buf_cstr(&ago));
	format_table_cell(&l->table, FORMAT_PLAIN, buf_cstr(&title));
}

static int session_list(struct cli *c)
{
	static const char *const heads[] = { "SESSION", "KIND", "UPDATED", "TITLE" };
	format_list_auto struct format_list l;
	struct err e = ERR_INIT;

	format_list_init(&l, heads, 4, opts_has(&c->opts, OPT_session_JSON));
	if (list_pages_sessions(c, on_session, &l, &e) < 0) {
		cli_fail(c, EXIT_FAILED, &e, "list sessions");
		return EXIT_FAILED;
	}
	return format_list_print(&l);
}

static int session_show(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "sessionId", id);
	jw_obj_end(&w);
	if (cli_call(c, "get_session", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	if (opts_has(&c->opts, OPT_session_JSON)) {
		buf_append(&out, a.result.text, a.result.len);
		buf_byte(&out, '\n');
	} else {
		format_json(a.result, 0, &out);
	}
	return format_out(&out);
}

/* ---- session rules ---- */

static json_t *read_policy(const char *file)
{
	mem_auto char *text = mem_alloc(FILE_MAX + 1);
	fd_auto int fd = open(file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, text, FILE_MAX + 1);
	json_error_t fault;
	json_t *v;

	if (n < 0 || n > (ssize_t)FILE_MAX) {
		cli_error("%s: %s", file, n < 0 ? strerror(errno) : "larger than 1 MiB");
		return NULL;
	}
	v = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &fault);
	if (!v || !json_is_object(v)) {
		if (v)
			cli_error("%s: expected a JSON object", file);
		else
			cli_error("%s: line %d, column %d: %s", file, fault.line, fault.column, fault.text);
		json_decref(v);
		return NULL;
	}
	return v;
}

/* Writes the request's permissions from a policy file; members that a session cannot have are rejected. */
static int write_policy(const char *file, struct jw *w)
{
	json_auto_t *v = read_policy(file), *rules = NULL;
	json_t *item;
	const char *key;

	if (!v)
		return EXIT_FAILED;
	json_object_foreach (v, key, item)
		if (strcmp(key, "permissions") != 0 && strcmp(key, "prefixRules") != 0) {
			cli_error(
				"%s: %s: not allowed in the rules of a session (only permissions and prefixRules are)",
				file, key);
			return EXIT_FAILED;
		}
	item = json_object_get(v, "permissions");
	if (item && !json_is_object(item)) {
		cli_error("%s: permissions: expected an object", file);
		return EXIT_FAILED;
	}
	rules = item ? json_incref(item) : json_object();
	if (json_object_get(v, "prefixRules"))
		json_object_set(rules, "prefixRules", json_object_get(v, "prefixRules"));
	mem_auto char *text = json_dumps(rules, JSON_COMPACT);
	jw_kraw(w, "permissions", text, strlen(text));
	return 0;
}

static int session_create(struct cli *c)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;

	jw_obj(&w);
	jw_kopt(&w, "title", opts_get(&c->opts, OPT_session_TITLE));
	if (opts_has(&c->opts, OPT_session_POLICY) && write_policy(opts_get(&c->opts, OPT_session_POLICY), &w))
		return EXIT_FAILED;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	if (cli_call(c, "create_session", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "create a session");
	if (opts_has(&c->opts, OPT_session_JSON))
		buf_append(&out, a.result.text, a.result.len);
	else
		format_scalar(jval_get(a.result, "sessionId"), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

static int session_update(struct cli *c)
{
	const char *title = opts_get(&c->opts, OPT_session_TITLE);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];

	if (opts_has(&c->opts, OPT_session_POLICY) && opts_has(&c->opts, OPT_session_NO_POLICY))
		return cli_usage(c, "--policy and --no-policy exclude each other");
	if (id_lookup_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "sessionId", id);
	jw_kopt(&w, "title", title);
	if (opts_has(&c->opts, OPT_session_ARCHIVE) || opts_has(&c->opts, OPT_session_UNARCHIVE))
		jw_kbool(&w, "archived", opts_has(&c->opts, OPT_session_ARCHIVE));
	if (opts_has(&c->opts, OPT_session_POLICY) && write_policy(opts_get(&c->opts, OPT_session_POLICY), &w))
		return EXIT_FAILED;
	if (opts_has(&c->opts, OPT_session_NO_POLICY))
		jw_kraw(&w, "permissions", "{}", 2);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "update_session", &params, "sessionId", opts_has(&c->opts, OPT_session_JSON));
}

int cmd_session(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "list", 0, 0, false, session_list },
		{ "show", 1, 1, false, session_show },
		{ "create", 0, 0, true, session_create },
		{ "update", 1, 1, false, session_update },
	};

	return noun_verb_run(c, subverbs, countof(subverbs));
}
