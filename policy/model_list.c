/*
 * Reads the models and budgets of a policy file. Entries are validated completely before they are added, and unknown
 * keys are errors: a misspelt "price" would make a model look free.
 */

#include "policy/model_list.h"
#include "policy/policy_text.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MODELS_MAX 256u
#define BUDGETS_MAX 64u
#define CAPABILITIES_MAX 64u
#define WORD_MAX 64u
#define USD_MAX 1e9

static const char *const latencies[] = {
	[LATENCY_FAST] = "fast", [LATENCY_BALANCED] = "balanced", [LATENCY_SLOW] = "slow"
};
static const char *const classes[] = { [BUDGET_LOW] = "low", [BUDGET_STANDARD] = "standard", [BUDGET_HIGH] = "high" };
static const char *const scopes[] = { [BUDGET_OF_USER] = "user", [BUDGET_OF_SESSION] = "session" };
static const char *const windows[] = { [BUDGET_EVER] = "none", [BUDGET_DAY] = "day", [BUDGET_MONTH] = "month" };

static int word_find(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word) == 0)
			return (int)i;
	return -1;
}

const char *model_latency_name(enum model_latency l) { return latencies[l]; }

const char *budget_class_name(enum budget_class c) { return classes[c]; }

const char *budget_window_name(enum budget_window w) { return windows[w]; }

int model_latency_find(const char *name) { return word_find(latencies, countof(latencies), name); }

int budget_class_find(const char *name) { return word_find(classes, countof(classes), name); }

/* ---- one entry being read ---- */

struct entry {
	const char *file, *list; /* "models" */
	size_t index;
	const json_t *json;
};

__attribute__((format(printf, 4, 5))) static int set_error(const struct entry *n, const char *key, struct err *e,
							   const char *fmt, ...)
{
	char field[ERR_FIELD_MAX], why[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	snprintf(field, sizeof field, "%s[%zu]%s%.24s", n->list, n->index, key ? "." : "", key ? key : "");
	return err_field(e, field, "%.80s: %s: %s", n->file, field, why);
}

/* Rejects members that the table does not list. */
static int check_keys(const struct entry *n, const char *const *known, size_t count, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(n->json))
		return set_error(n, NULL, e, "must be an object");
	json_object_foreach ((json_t *)(uintptr_t)n->json, key, v)
		if (word_find(known, count, key) < 0)
			return set_error(n, key, e, "unknown key");
	return 0;
}

static int take_text(const struct entry *n, const char *key, bool required, char **ret, struct err *e)
{
	const json_t *v = json_object_get(n->json, key);
	const char *s = json_string_value(v);

	if (!v && !required)
		return 0;
	if (!s || !*s || strlen(s) > WORD_MAX)
		return set_error(n, key, e, "must be a string of 1 to %u bytes", WORD_MAX);
	*ret = mem_strdup(s);
	return 0;
}

/* Reads one of a few words; a missing member has the value `otherwise`. */
static int take_word(const struct entry *n, const char *key, const char *const *words, size_t count, int otherwise,
		     int *ret, struct err *e)
{
	const json_t *v = json_object_get(n->json, key);
	int at = json_is_string(v) ? word_find(words, count, json_string_value(v)) : -1;

	if (v && at < 0)
		return set_error(n, key, e, "must be one of %s%s%s%s%s", words[0], count > 1 ? ", " : "",
				 count > 1 ? words[1] : "", count > 2 ? ", " : "", count > 2 ? words[2] : "");
	*ret = v ? at : otherwise;
	return 0;
}

/* Reads an amount in dollars; stored in millionths, so that sums are exact. */
static int take_usd(const struct entry *n, const char *key, const json_t *from, bool required, uint64_t *ret,
		    struct err *e)
{
	const json_t *v = json_object_get(from, key);

	if (!v && !required)
		return 0;
	if (!json_is_number(v) || !(json_number_value(v) >= 0) || json_number_value(v) > USD_MAX)
		return set_error(n, key, e, "must be an amount in US dollars, 0 or more");
	*ret = (uint64_t)(json_number_value(v) * 1e6 + 0.5);
	return 0;
}

static void model_done(struct policy_model *m)
{
	free(m->provider);
	free(m->model);
	free(m->disabled);
	for (size_t i = 0; i < m->ncapability; i++)
		free(m->capability[i]);
	free(m->capability);
}

static int take_capabilities(const struct entry *n, struct policy_model *m, struct err *e)
{
	const json_t *list = json_object_get(n->json, "capabilities"), *v;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list) || json_array_size(list) > CAPABILITIES_MAX)
		return set_error(n, "capabilities", e, "must be an array of at most %u words", CAPABILITIES_MAX);
	m->capability = mem_zalloc(json_array_size(list) + 1, sizeof *m->capability);
	json_array_foreach (list, i, v) {
		const char *s = json_string_value(v);

		if (!s || !*s || strlen(s) > WORD_MAX)
			return set_error(n, "capabilities", e, "must contain words of 1 to %u bytes", WORD_MAX);
		m->capability[m->ncapability++] = mem_strdup(s);
	}
	return 0;
}

/*
 * Rejects members of an object inside an entry that the table does not list. `where` is the object's name in messages.
 */
static int check_members(const struct entry *n, const char *where, const json_t *object, const char *const *known,
			 size_t count, struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(object))
		return set_error(n, where, e, "must be an object with inputPerMTok and outputPerMTok");
	json_object_foreach ((json_t *)(uintptr_t)object, key, v)
		if (word_find(known, count, key) < 0)
			return set_error(n, where, e, "unknown key \"%.40s\"", key);
	return 0;
}

/* Cached input, and input written to the cache, cost as much as other input unless given. */
static int take_rates(const struct entry *n, const json_t *from, struct model_rates *ret, struct err *e)
{
	struct model_rates r = { 0 };

	if (take_usd(n, "inputPerMTok", from, true, &r.input, e) < 0 ||
	    take_usd(n, "outputPerMTok", from, true, &r.output, e) < 0)
		return -1;
	r.cached = r.cache_write = r.input;
	if (take_usd(n, "cachedPerMTok", from, false, &r.cached, e) < 0 ||
	    take_usd(n, "cacheWritePerMTok", from, false, &r.cache_write, e) < 0)
		return -1;
	r.cache_write_1h = r.cache_write;
	if (take_usd(n, "cacheWrite1hPerMTok", from, false, &r.cache_write_1h, e) < 0)
		return -1;
	*ret = r;
	return 0;
}

/* Prices per million tokens, and the higher ones of requests with much input. */
static int take_price(const struct entry *n, struct model_price *ret, struct err *e)
{
	static const char *const keys[] = {
		"inputPerMTok",        "outputPerMTok", "cachedPerMTok", "cacheWritePerMTok",
		"cacheWrite1hPerMTok", "above",         "tokens"
	};
	const json_t *price = json_object_get(n->json, "price"), *above = json_object_get(price, "above"),
		     *tokens = json_object_get(above, "tokens");
	struct model_price p = { .known = true };

	if (!price)
		return 0;
	/* "tokens" is last: only the tier has it. */
	if (check_members(n, "price", price, keys, countof(keys) - 1, e) < 0 || take_rates(n, price, &p.base, e) < 0)
		return -1;
	if (above) {
		if (check_members(n, "price.above", above, keys, countof(keys), e) < 0 ||
		    take_rates(n, above, &p.above, e) < 0)
			return -1;
		if (!json_is_integer(tokens) || json_integer_value(tokens) < 1)
			return set_error(n, "price.above.tokens", e, "must be a number, 1 or more");
		p.above_tokens = (uint64_t)json_integer_value(tokens);
	}
	*ret = p;
	return 0;
}

static int read_model(const struct entry *n, struct policy_model *ret, struct err *e)
{
	static const char *const keys[] = { "provider",    "model",         "capabilities", "latency",
					    "budgetClass", "contextTokens", "price",        "disabled" };
	struct policy_model m = { 0 };
	const json_t *context = json_object_get(n->json, "contextTokens");
	int latency, class;

	if (check_keys(n, keys, countof(keys), e) < 0 || take_text(n, "provider", true, &m.provider, e) < 0 ||
	    take_text(n, "model", true, &m.model, e) < 0 || take_text(n, "disabled", false, &m.disabled, e) < 0 ||
	    take_word(n, "latency", latencies, countof(latencies), LATENCY_BALANCED, &latency, e) < 0 ||
	    take_word(n, "budgetClass", classes, countof(classes), BUDGET_STANDARD, &class, e) < 0 ||
	    take_capabilities(n, &m, e) < 0 || take_price(n, &m.price, e) < 0 ||
	    (context && (!json_is_integer(context) || json_integer_value(context) < 1) &&
	     set_error(n, "contextTokens", e, "must be a number, 1 or more") < 0)) {
		model_done(&m);
		return -1;
	}
	m.latency = (enum model_latency)latency;
	m.budget_class = (enum budget_class) class;
	m.context_tokens = (uint64_t)json_integer_value(context);
	*ret = m;
	return 0;
}

/* A session's budget lasts as long as the session, so it has no window. */
static int read_budget(const struct entry *n, struct policy_budget *ret, struct err *e)
{
	static const char *const keys[] = { "name", "scope", "window", "usd", "lowMark" };
	struct policy_budget b = { .low_percent = 80 };
	const json_t *mark = json_object_get(n->json, "lowMark");
	int scope, window;

	if (check_keys(n, keys, countof(keys), e) < 0)
		return -1;
	if (mark && (!json_is_number(mark) || !(json_number_value(mark) > 0) || json_number_value(mark) > 1))
		return set_error(n, "lowMark", e, "must be more than 0 and at most 1");
	if (mark)
		b.low_percent = (unsigned)(json_number_value(mark) * 100);
	if (take_word(n, "scope", scopes, countof(scopes), BUDGET_OF_USER, &scope, e) < 0 ||
	    take_word(n, "window", windows, countof(windows), BUDGET_EVER, &window, e) < 0 ||
	    take_usd(n, "usd", n->json, true, &b.micro_usd, e) < 0 || take_text(n, "name", true, &b.name, e) < 0)
		return -1;
	b.scope = (enum budget_scope)scope;
	b.window = (enum budget_window)window;
	if (b.scope == BUDGET_OF_SESSION && b.window != BUDGET_EVER) {
		free(b.name);
		return set_error(n, "window", e, "a session's budget has no window");
	}
	*ret = b;
	return 0;
}

/* ---- a file ---- */

static bool budget_known(const struct model_list *s, const char *name)
{
	for (size_t i = 0; i < s->nbudget; i++)
		if (strcmp(s->budget[i].name, name) == 0)
			return true;
	return false;
}

static int list_of(const json_t *v, const char *file, const char *name, size_t most, struct err *e)
{
	if (v && (!json_is_array(v) || json_array_size(v) > most))
		return err_field(e, name, "%.80s: %s: must be an array of at most %zu", file, name, most);
	return 0;
}

static int read_all(struct model_list *s, const char *file, const json_t *models, const json_t *budgets, struct err *e)
{
	struct entry n = { .file = file, .list = "models" };

	json_array_foreach (models, n.index, n.json) {
		struct policy_model m;

		if (read_model(&n, &m, e) < 0)
			return -1;
		/* A more important file has defined it already. */
		if (model_list_find(s, m.provider, m.model)) {
			model_done(&m);
			continue;
		}
		s->model = mem_realloc(s->model, (s->count + 1) * sizeof *s->model);
		s->model[s->count++] = m;
	}
	n.list = "limits.budgets";
	json_array_foreach (budgets, n.index, n.json) {
		struct policy_budget b;

		if (read_budget(&n, &b, e) < 0)
			return -1;
		/* The same for budgets. */
		if (budget_known(s, b.name)) {
			free(b.name);
			continue;
		}
		s->budget = mem_realloc(s->budget, (s->nbudget + 1) * sizeof *s->budget);
		s->budget[s->nbudget++] = b;
	}
	return 0;
}

int model_list_parse(struct model_list *s, const char *file, const char *text, size_t len, struct err *e)
{
	json_auto_t *root = policy_text_load(file, text, len, POLICY_TEXT_MAX, e);

	if (!root)
		return -1;
	const json_t *models = json_object_get(root, "models"), *limits = json_object_get(root, "limits");
	const json_t *budgets = json_object_get(limits, "budgets");
	if (limits && !json_is_object(limits))
		return err_field(e, "limits", "%.80s: limits: must be an object", file);
	if (list_of(models, file, "models", MODELS_MAX, e) < 0 ||
	    list_of(budgets, file, "limits.budgets", BUDGETS_MAX, e) < 0)
		return -1;
	return read_all(s, file, models, budgets, e);
}

void model_list_done(struct model_list *s)
{
	for (size_t i = 0; i < s->count; i++)
		model_done(&s->model[i]);
	for (size_t i = 0; i < s->nbudget; i++)
		free(s->budget[i].name);
	free(s->model);
	free(s->budget);
	*s = (struct model_list){ 0 };
}

const struct policy_model *model_list_find(const struct model_list *s, const char *provider, const char *model)
{
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->model[i].provider, provider) == 0 && strcmp(s->model[i].model, model) == 0)
			return &s->model[i];
	return NULL;
}
