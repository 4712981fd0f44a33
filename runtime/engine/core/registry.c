#include "runtime/engine/core/registry.h"

#include "policy/http_url.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/view/view_codec.h"
#include "runtime/view/view_model.h"

#include <limits.h>

#define URL_MAX 512u

int registry_read(struct engine *engine, const struct view_schema *schema, uint32_t uid, const char *name,
		  struct buf *text, void *ret, struct err *e)
{
	char key[ID_SIZE];

	view_model_key(uid, name, key);
	return view_read_speculative(engine->o.store, schema, key, text, ret, e);
}

int registry_names(struct engine *engine, enum view_kind kind, uint32_t uid, unsigned max, struct view_ids *ret,
		   struct err *e)
{
	char owner[ID_SIZE];

	(void)snprintf(owner, sizeof owner, "%u", uid);
	return view_ids_speculative(engine->o.store, kind, owner, max, ret, e);
}

struct scope registry_scope(struct engine *engine, uint32_t uid, const char *request_id, const char *trace_id)
{
	return (struct scope){ .uid = uid,
			       .session = engine->system_session,
			       .thread = engine->system_thread,
			       .turn = engine->system_turn,
			       .request = request_id,
			       .trace = trace_id };
}

bool registry_contains_key(const char *s)
{
	static const char *const prefixes[] = { "sk-",  "gsk_", "xai-",        "AIza",   "hf_",  "pplx-",
						"ghp_", "gho_", "github_pat_", "glpat-", "xoxb-" };
	static const char word[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	for (size_t n; *s; s += n ? n : 1) {
		n = strspn(s, word);
		for (size_t i = 0; n >= 20 && i < countof(prefixes); i++)
			if (strncmp(s, prefixes[i], strlen(prefixes[i])) == 0)
				return true;
	}
	return false;
}

int registry_file(const char *field, const char *given, const char *what, char **ret, struct err *e)
{
	char path[PATH_MAX];
	struct err ignored = ERR_INIT;

	if (given && (path_clean(given, path, &ignored) < 0 || registry_contains_key(given)))
		return err_field(
			e, field,
			"must be the absolute path of a file that contains %s; a key itself is never part of a "
			"request",
			what);
	*ret = given ? mem_strdup(path) : NULL;
	return 0;
}

int registry_url(const char *field, const char *given, bool insecure, char **ret_url, char **ret_host, struct err *e)
{
	mem_auto char *text = mem_strdup(given);
	struct err inner = ERR_INIT;
	struct http_url url;

	for (size_t n = strlen(text); n && text[n - 1] == '/'; n--)
		text[n - 1] = '\0';
	if (strlen(text) > URL_MAX)
		return err_field(e, field, "must have at most %u bytes", URL_MAX);
	if (strpbrk(text, "?#"))
		return err_field(e, field,
				 "must have no query and no fragment: it is the part that all requests have in common");
	if (http_url_parse(text, &url, &inner) < 0)
		return err_field(e, field, "%.200s", inner.message);
	mem_auto char *host = url.host;
	if (!url.tls && !url.loopback && !insecure)
		return err_field(e, field,
				 "must begin with https://: http would send the key and the conversation unencrypted; "
				 "give insecure to allow that");
	*ret_url = mem_take(&text);
	*ret_host = mem_take(&host);
	return 0;
}

void registry_authorise(struct engine *engine, const struct caller *c, const char *const *files, size_t n)
{
	buf_auto struct buf paths = BUF_INIT;

	if (c->uid != 0 || !c->connection || c->peer_fd < 0 || !engine->o.ports->authorise)
		return;
	for (size_t i = 0; i < n; i++)
		if (files[i])
			buf_append(&paths, files[i], strlen(files[i]) + 1);
	if (paths.len)
		engine->o.ports->authorise(engine->o.host, c->peer_fd, paths.data, paths.len, true);
}
