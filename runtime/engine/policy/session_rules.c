#include "runtime/engine/policy/session_rules.h"

#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_state.h"
#include "runtime/view/view_documents.h"

#include <jansson.h>

#define KEPT_MAX 64u /* sessions in the cache; it is emptied when full */

/* Cache entry: the parsed rules and their source text. It is stale if the session's document has another text. */
struct session_rules {
	struct policy_rules rules;
	char *text;
	size_t len;
};

static void free_kept(void *ctx, const char *key, void *value)
{
	struct session_rules *s = value;

	policy_rules_done(&s->rules);
	free(s->text);
	free(s);
}

void session_rules_done(struct engine *engine)
{
	strmap_each(&engine->policy->session_rules, free_kept, NULL);
	strmap_done(&engine->policy->session_rules);
	engine->policy->session_rules = STRMAP_INIT;
}

/* ---- reading ---- */

static struct session_rules *parse_rules(const char *session_id, struct jval text, struct err *e)
{
	json_error_t fault;
	json_auto_t *v = json_loadb(text.text, text.len, 0, &fault);
	struct policy_rules rules = RULES_INIT;
	struct session_rules *s;

	if (!json_is_object(v)) {
		err_set(e, ERR_CORRUPT, "%s", v ? "not an object" : fault.text);
		return NULL;
	}
	if (policy_rules_session(&rules, session_id, v, e) < 0)
		return NULL;
	s = mem_zalloc(1, sizeof *s);
	s->rules = rules;
	s->text = mem_strndup(text.text, text.len);
	s->len = text.len;
	return s;
}

/* 1 = the session has no rules. `ret` points into `text`. */
static int read_document(struct engine *engine, const char *session_id, struct buf *text, struct session_doc *ret,
			 struct err *e)
{
	int r = *session_id ? view_read_speculative(engine->o.store, &session_schema, session_id, text, ret, e) : 1;

	return r ? r : ret->permissions.type == JT_NONE || ret->permissions.type == JT_NULL;
}

int session_rules_of(struct engine *engine, const char *session_id, const struct policy_rules **ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_rules *kept;
	struct session_doc d;
	int r = session_id ? read_document(engine, session_id, &text, &d, e) : 1;

	*ret = NULL;
	if (r < 0)
		return err_wrap(e, "the rules of session %.64s cannot be read", session_id);
	if (r > 0)
		return 0;
	kept = strmap_get(&engine->policy->session_rules, session_id);
	if (!kept || kept->len != d.permissions.len || memcmp(kept->text, d.permissions.text, kept->len) != 0) {
		struct session_rules *fresh = parse_rules(session_id, d.permissions, e);

		if (!fresh)
			return err_wrap(e, "the rules of session %.64s cannot be read", session_id);
		if (kept)
			free_kept(NULL, NULL, strmap_del(&engine->policy->session_rules, session_id));
		if (engine->policy->session_rules.count >= KEPT_MAX)
			session_rules_done(engine);
		strmap_put(&engine->policy->session_rules, session_id, fresh);
		kept = fresh;
	}
	*ret = &kept->rules;
	return 0;
}

/* ---- changing ---- */

static bool list_has(const json_t *list, const json_t *what)
{
	const json_t *v;
	size_t i;

	json_array_foreach (list, i, v)
		if (json_equal(v, what))
			return true;
	return false;
}

__attribute__((format(printf, 3, 4))) static int not_allowed(struct err *e, const char *field, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	err_set(e, ERR_NOT_ALLOWED, "%s: %s", field, why);
	snprintf(e->field, sizeof e->field, "%s", field);
	return -1;
}

static bool prefix_allows(const json_t *prefix)
{
	const char *decision = json_string_value(json_object_get(prefix, "decision"));

	return !decision || strcmp(decision, "allow") == 0;
}

/* Each rule in effect that denies or asks must stay; an ask rule may become a deny rule. */
static int check_kept(const json_t *before, const json_t *now, const char *tightens, struct err *e)
{
	static const char *const lists[] = { "deny", "ask", "prefixRules" };

	for (size_t k = 0; k < countof(lists); k++) {
		const json_t *list = json_object_get(before, lists[k]), *v;
		char field[ERR_FIELD_MAX];
		size_t i;

		snprintf(field, sizeof field, "permissions.%s", lists[k]);
		json_array_foreach (list, i, v) {
			mem_auto char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
			bool stays = list_has(json_object_get(now, lists[k]), v);

			if (k == 1)
				stays |= list_has(json_object_get(now, "deny"), v);
			if (k == 2)
				stays |= prefix_allows(v);
			if (!stays)
				return not_allowed(e, field, "%.80s is in effect and would be removed: %s", text,
						   tightens);
		}
	}
	return 0;
}

/* No rule may allow something that was not allowed before. */
static int check_allowed(const json_t *before, const json_t *now, const char *tightens, struct err *e)
{
	static const char *const lists[] = { "allow", "prefixRules" };

	for (size_t k = 0; k < countof(lists); k++) {
		const json_t *v;
		char field[ERR_FIELD_MAX];
		size_t i;

		json_array_foreach (json_object_get(now, lists[k]), i, v) {
			if ((k == 1 && !prefix_allows(v)) || list_has(json_object_get(before, lists[k]), v))
				continue;
			snprintf(field, sizeof field, "permissions.%s[%zu]", lists[k], i);
			return not_allowed(e, field, "would allow something: %s", tightens);
		}
	}
	return 0;
}

/* The canonical form, for comparing and hashing: only the lists that are not empty, in a fixed order. */
static json_t *normalise_rules(const json_t *permissions)
{
	static const char *const lists[] = { "deny", "ask", "allow", "prefixRules" };
	json_t *v = json_object();

	for (size_t i = 0; i < countof(lists); i++) {
		json_t *list = json_object_get(permissions, lists[i]);

		if (json_array_size(list) || (list && !json_is_array(list)))
			json_object_set(v, lists[i], list);
	}
	return v;
}

/* Checks that the rules are valid and that the caller may set them. */
static int check_rules(struct engine *engine, const char *session_id, const json_t *before, const json_t *now,
		       const struct session_rules_request *r, struct err *e)
{
	struct policy_rules rules = RULES_INIT;

	if (policy_rules_session(&rules, session_id, now, e) < 0)
		return -1;
	policy_rules_done(&rules);
	if (r->tightens)
		return check_kept(before, now, r->tightens, e) < 0 || check_allowed(before, now, r->tightens, e) < 0
			       ? -1
			       : 0;
	if (engine->rules && engine->rules->sessions_tighten)
		return check_allowed(before, now, "the policy says \"sessionAllow\": false in permissions", e);
	return 0;
}

static void summarise_rules(const json_t *now, struct buf *out)
{
	static const struct {
		const char *list, *text;
	} rows[] = { { "deny", "deny" }, { "ask", "ask" }, { "allow", "allow" }, { "prefixRules", "prefix rules" } };

	for (size_t i = 0; i < countof(rows); i++) {
		size_t n = json_array_size(json_object_get(now, rows[i].list));

		if (n)
			buf_printf(out, "%s%zu %s", out->len ? ", " : "the session's own rules: ", n, rows[i].text);
	}
	if (!out->len)
		buf_str(out, "the session has no rules of its own");
}

int session_rules_fact(struct engine *engine, const char *session_id, const char *thread_id,
		       const struct session_rules_request *r, const struct caller *c, struct transaction *tx,
		       struct err *e)
{
	buf_auto struct buf text = BUF_INIT, summary = BUF_INIT;
	const struct requester by = requester_of(c);
	json_auto_t *before = NULL, *now = normalise_rules(r->permissions);
	mem_auto char *now_text = json_dumps(now, JSON_COMPACT);
	char hash[HASH_SHA256_TEXT];
	struct session_doc d;
	int had = read_document(engine, session_id, &text, &d, e);

	if (had < 0)
		return -1;
	if (strlen(now_text) > SESSION_RULES_TEXT_MAX)
		return err_field(e, "permissions", "must have at most %u bytes of JSON", SESSION_RULES_TEXT_MAX);
	if (strcmp(session_id, engine->system_session) == 0)
		return err_field(e, "permissions", "the runtime's own session has no rules");
	before = had == 0 ? json_loadb(d.permissions.text, d.permissions.len, 0, NULL) : json_object();
	if (check_rules(engine, session_id, before, now, r, e) < 0)
		return -1;
	if (json_equal(before, now)) /* both are in canonical form */
		return 0;
	summarise_rules(now, &summary);
	char old_hash[HASH_SHA256_TEXT];
	if (had == 0)
		hash_sha256_text(d.permissions.text, d.permissions.len, old_hash);
	hash_sha256_text(now_text, strlen(now_text), hash);
	const struct scope s = { .uid = c->uid, .session = session_id, .thread = thread_id, .request = c->request_id };
	int r2 = EMIT(policy_changed, tx, s, .layer = "session", .permissions = json_from_text(now_text),
		      .oldHash = had == 0 ? old_hash : NULL, .newHash = json_object_size(now) ? hash : NULL,
		      .summary = summary.data, .by = json_requester(&by));
	return r2 < 0 ? err_field(e, "permissions", "cannot be written: too long") : 0;
}
