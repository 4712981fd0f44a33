#include "supervisor/host/policy_files.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/core/ports.h"
#include "runtime/engine/model/model.h"

#include <errno.h>
#include <unistd.h>

/*
 * All files are parsed into a new struct policy_files before anything is replaced: a mistake in one of them must not
 * leave a mixture of old and new rules. A missing file is valid and means that its layer has no rules; one that exists
 * but cannot be opened is not, because it may deny something.
 */

#define FILE_MAX (1u << 20)
#define NOTES_TOLD 8u /* warnings for each kind of note; the others are shown by `bailiff policy lint` */

/* The strongest layer first. */
static const struct layer {
	enum guard_file file;
	const char *name, *label;
	enum rule_layer rules;
} layers[] = {
	{ GUARD_FILE_HOST_POLICY, "host", "the host's policy.json", RULE_OF_HOST },
	{ GUARD_FILE_POLICY, "user", "policy.json", RULE_OF_USER },
};

struct text {
	char *data; /* NULL = no file */
	size_t len;
	char hash[HASH_SHA256_TEXT]; /* "" = no file */
};

static int read_file(const struct layer *l, int fd, struct text *ret, struct err *e)
{
	if (fd == -1)
		return 0;
	if (fd < 0)
		return err_set(e, ERR_UNAVAILABLE, "%s exists but cannot be opened", l->label);
	mem_auto char *data = mem_alloc(FILE_MAX + 1);
	ssize_t n = lseek(fd, 0, SEEK_SET) < 0 ? -1 : fd_read_all(fd, data, FILE_MAX + 1);
	if (n < 0)
		return err_sys(e, errno, "read %s", l->label);
	if ((size_t)n > FILE_MAX)
		return err_set(e, ERR_INVALID, "%s is larger than 1 MiB", l->label);
	hash_sha256_text(data, (size_t)n, ret->hash);
	ret->len = (size_t)n;
	ret->data = mem_take(&data);
	return 0;
}

/* All layers or none: the caller drops `ret` on failure. */
static int read_all(const int files[GUARD_FILES], struct text texts[countof(layers)], struct policy_files *ret,
		    struct err *e)
{
	for (size_t i = 0; i < countof(layers); i++) {
		if (read_file(&layers[i], files[layers[i].file], &texts[i], e) < 0)
			return -1;
		if (texts[i].data &&
		    (policy_rules_parse(&ret->rules, layers[i].rules, layers[i].label, texts[i].data, texts[i].len, e) <
			     0 ||
		     policy_hooks_parse(&ret->hooks, layers[i].rules, layers[i].label, texts[i].data, texts[i].len, e) <
			     0 ||
		     policy_profiles_parse(&ret->profiles, layers[i].label, texts[i].data, texts[i].len, e) < 0 ||
		     model_list_parse(&ret->models, layers[i].label, texts[i].data, texts[i].len, e) < 0))
			return -1;
	}
	return 0;
}

/* The engine gets pointers into *p, so the previous version is freed only after all of them are replaced. */
static void install_policy(struct policy_files *p, struct policy_files *fresh, const struct text texts[countof(layers)],
			   struct engine *engine)
{
	struct policy_files old = *p;
	buf_auto struct buf summary = BUF_INIT;

	*p = *fresh;
	*fresh = (struct policy_files){ .rules = RULES_INIT };
	p->rules.hooks = &p->hooks;
	p->loaded = true;
	p->generation = old.generation + 1;
	for (size_t i = 0; i < countof(layers); i++) {
		p->text[layers[i].rules] = texts[i].data ? mem_strndup(texts[i].data, texts[i].len) : NULL;
		p->len[layers[i].rules] = texts[i].len;
	}
	engine_set_profiles(engine, &p->profiles);
	engine_set_models(engine, &p->models);
	engine_set_rules(engine, &p->rules);
	engine_set_hooks(engine, &p->hooks);
	engine_set_policy_problem(engine, NULL);
	policy_files_done(&old);
	for (size_t i = 0; i < countof(layers); i++) {
		buf_reset(&summary);
		if (!texts[i].data)
			buf_printf(&summary, "%s is gone", layers[i].label);
		else
			buf_printf(&summary,
				   "%s was read: %zu rules, %zu hooks, and %zu profiles in addition to the shipped "
				   "ones, are "
				   "known",
				   layers[i].label, p->rules.count, p->hooks.count, p->profiles.count);
		engine_policy_is(engine, layers[i].name, texts[i].hash, summary.data);
	}
	if (p->profiles.section.partial)
		engine_warn(
			engine, "policy_partly_used",
			"parts of the section sandbox are not acted on: do not rely on them",
			"this version acts on the permissions, prefix rules, hooks, profiles, hosts, paths, models and "
			"limits of a policy file only");
	for (size_t i = 0; i < p->rules.nnotes && i < NOTES_TOLD; i++)
		engine_warn(engine, "policy_note", "bailiff policy lint shows all notes", "%s", p->rules.note[i]);
	for (size_t i = 0; i < p->hooks.nnotes && i < NOTES_TOLD; i++)
		engine_warn(engine, "policy_note", "bailiff policy lint shows all notes", "%s", p->hooks.note[i]);
}

void policy_files_load(struct policy_files *p, const int files[GUARD_FILES], uint32_t token, struct engine *engine)
{
	struct text texts[countof(layers)] = { 0 };
	struct policy_files fresh = { .rules = RULES_INIT };
	struct err e = ERR_INIT;

	if (read_all(files, texts, &fresh, &e) == 0) {
		install_policy(p, &fresh, texts, engine);
		engine_policy_loaded(engine, token, NULL);
	} else {
		policy_files_done(&fresh);
		engine_warn(engine, "policy_not_loaded",
			    p->loaded ? "fix it and send SIGHUP; the previous policy stays in effect until then"
				      : "fix it and send SIGHUP; until then no process is started",
			    "the policy was not loaded: %s", e.message);
		if (!p->loaded)
			engine_set_policy_problem(engine, e.message);
		engine_policy_loaded(engine, token, e.message);
	}
	for (size_t i = 0; i < countof(layers); i++)
		free(texts[i].data);
}

void policy_files_done(struct policy_files *p)
{
	policy_profiles_done(&p->profiles);
	model_list_done(&p->models);
	policy_rules_done(&p->rules);
	policy_hooks_done(&p->hooks);
	for (int i = 0; i < RULE_LAYERS; i++)
		free(p->text[i]);
}

int policy_files_parse_again(const struct policy_files *p, struct policy_rules *ret, struct policy_hooks *ret_hooks,
			     struct err *e)
{
	for (size_t i = 0; i < countof(layers); i++) {
		enum rule_layer l = layers[i].rules;

		if (p->text[l] && (policy_rules_parse(ret, l, layers[i].label, p->text[l], p->len[l], e) < 0 ||
				   policy_hooks_parse(ret_hooks, l, layers[i].label, p->text[l], p->len[l], e) < 0))
			return -1;
	}
	return 0;
}
