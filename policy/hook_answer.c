/*
 * Answers of hooks. The format is that of the existing conventions, with both the old members (decision, reason) and
 * the new ones (hookSpecificOutput). An answer that is not understood is a failure and never an approval: whether a
 * failure denies depends on the hook and on its point (hook_points.def).
 */

#include "policy/hook_answer.h"

#include "policy/decision.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REASON_MAX 4096u
#define CONTEXT_MAX (64u << 10)

static const char *const verdicts[] = {
	[HOOK_VERDICT_NONE] = "continue", [HOOK_VERDICT_ALLOW] = "allow", [HOOK_VERDICT_ASK] = "ask",
	[HOOK_VERDICT_DEFER] = "defer",   [HOOK_VERDICT_DENY] = "deny",
};

const char *hook_verdict_name(enum hook_verdict v) { return verdicts[v]; }

void hook_answer_done(struct hook_answer *a)
{
	free(a->reason);
	free(a->context);
	free(a->message);
	free(a->input);
	free(a->output);
	*a = (struct hook_answer){ 0 };
}

void hook_answer_fail(struct hook_answer *a, const char *fmt, ...)
{
	char text[REASON_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	hook_answer_done(a);
	a->failed = true;
	a->reason = mem_strdup(text);
}

/* Copies a text without leading and trailing blanks, shortened to `most` bytes of valid text. */
static char *trim_text(const char *s, size_t n, size_t most)
{
	buf_auto struct buf clean = BUF_INIT;

	while (n && strchr(" \t\r\n", s[0]))
		s++, n--;
	while (n && strchr(" \t\r\n", s[n - 1]))
		n--;
	n = text_utf8_cut(s, n < most ? n : most);
	text_sanitize(s, n, &clean);
	return clean.len ? buf_take(&clean) : NULL;
}

/* ---- members ---- */

struct answer_reading {
	enum hook_point point;
	struct hook_answer *ret;
	char wrong[200];
};

__attribute__((format(printf, 2, 3))) static int set_error(struct answer_reading *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->wrong, sizeof f->wrong, fmt, ap);
	va_end(ap);
	return -1;
}

/* NULL also for a null, which serializers write for members that are not set. */
static const json_t *get_member(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

/* Replaces *ret if the member is a text that is not empty. */
static int take_text(struct answer_reading *f, const json_t *obj, const char *key, size_t most, char **ret)
{
	const json_t *v = get_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return set_error(f, "%s must be a string", key);
	char *text = trim_text(json_string_value(v), json_string_length(v), most);
	if (text) {
		free(*ret);
		*ret = text;
	}
	return 0;
}

static int take_flag(struct answer_reading *f, const json_t *obj, const char *key, bool *ret)
{
	const json_t *v = get_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return set_error(f, "%s must be true or false", key);
	*ret = json_is_true(v);
	return 0;
}

/* Keeps a value as JSON text, for the step that uses it. */
static int take_json(struct answer_reading *f, const json_t *v, const char *key, bool object, char **ret)
{
	if (!v)
		return 0;
	if (object && !json_is_object(v))
		return set_error(f, "%s must be an object", key);
	free(*ret);
	*ret = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
	return 0;
}

/* If an answer has several verdicts, the strongest one is used. */
static void raise_verdict(struct answer_reading *f, enum hook_verdict v)
{
	f->ret->verdict = v > f->ret->verdict ? v : f->ret->verdict;
}

static int take_verdict(struct answer_reading *f, const json_t *v, const char *key)
{
	const char *s = json_string_value(v);

	if (!v)
		return 0;
	for (int i = HOOK_VERDICT_ALLOW; s && i <= HOOK_VERDICT_DENY; i++)
		if (strcmp(verdicts[i], s) == 0) {
			raise_verdict(f, (enum hook_verdict)i);
			return 0;
		}
	return set_error(f, "%s must be allow, deny, ask or defer", key);
}

/* decision: {"behavior":"allow"|"deny",…} */
static int take_behavior(struct answer_reading *f, const json_t *d)
{
	const char *s = json_string_value(get_member(d, "behavior"));

	if (!d)
		return 0;
	if (!json_is_object(d) || !s || (strcmp(s, "allow") != 0 && strcmp(s, "deny") != 0))
		return set_error(f, "hookSpecificOutput.decision must be {\"behavior\":\"allow\"|\"deny\"}");
	raise_verdict(f, s[0] == 'a' ? HOOK_VERDICT_ALLOW : HOOK_VERDICT_DENY);
	if (take_text(f, d, "message", REASON_MAX, &f->ret->reason) < 0)
		return -1;
	return s[0] == 'a' ? take_json(f, get_member(d, "updatedInput"), "updatedInput", true, &f->ret->input) : 0;
}

/* The members that depend on the hook point. */
static int take_specific(struct answer_reading *f, const json_t *v)
{
	const json_t *event = get_member(v, "hookEventName");
	const char *name = json_string_value(event);
	struct hook_answer *a = f->ret;

	if (!v)
		return 0;
	if (!json_is_object(v))
		return set_error(f, "hookSpecificOutput must be an object");
	if (event && (!name || hook_point_find(name) != (int)f->point))
		return set_error(f, "hookEventName is not %s", hook_point_event(f->point));
	if (take_text(f, v, "additionalContext", CONTEXT_MAX, &a->context) < 0)
		return -1;
	switch (f->point) {
	case HOOK_PRE_TOOL_USE:
		if (take_verdict(f, get_member(v, "permissionDecision"), "permissionDecision") < 0 ||
		    take_text(f, v, "permissionDecisionReason", REASON_MAX, &a->reason) < 0)
			return -1;
		return take_json(f, get_member(v, "updatedInput"), "updatedInput", true, &a->input);
	case HOOK_PERMISSION_REQUEST: return take_behavior(f, get_member(v, "decision"));
	case HOOK_POST_TOOL_USE:
		if (take_json(f, get_member(v, "updatedMCPToolOutput"), "updatedMCPToolOutput", false, &a->output) < 0)
			return -1;
		return take_json(f, get_member(v, "updatedToolOutput"), "updatedToolOutput", false, &a->output);
	default: return 0;
	}
}

/* The old member: block denies; approve counts only where a hook may allow. */
static int take_decision(struct answer_reading *f, const json_t *v)
{
	const char *s = json_string_value(v);

	if (!v)
		return 0;
	if (s && strcmp(s, "block") == 0)
		f->ret->verdict = HOOK_VERDICT_DENY;
	else if (s && strcmp(s, "approve") == 0)
		f->ret->verdict = f->point == HOOK_PRE_TOOL_USE || f->point == HOOK_PERMISSION_REQUEST
					  ? HOOK_VERDICT_ALLOW
					  : HOOK_VERDICT_NONE;
	else
		return set_error(f, "decision must be \"approve\" or \"block\"");
	return 0;
}

/* Reads a JSON answer; any invalid member makes the whole answer invalid. */
static int read_answer(struct answer_reading *f, const json_t *root)
{
	struct hook_answer *a = f->ret;
	mem_auto char *why = NULL;
	bool continues = true;

	/* Ignoring a misplaced permissionDecision would lose a denial. */
	static const char *const misplaced[] = { "permissionDecision", "updatedInput", "behavior" };
	for (size_t i = 0; i < countof(misplaced); i++)
		if (get_member(root, misplaced[i]))
			return set_error(f, "%s belongs in hookSpecificOutput", misplaced[i]);
	if (take_flag(f, root, "async", &a->async) < 0 || take_flag(f, root, "continue", &continues) < 0 ||
	    take_flag(f, root, "suppressOutput", &a->suppress) < 0 ||
	    take_text(f, root, "systemMessage", REASON_MAX, &a->message) < 0 ||
	    take_decision(f, get_member(root, "decision")) < 0 ||
	    take_text(f, root, "reason", REASON_MAX, &a->reason) < 0 ||
	    take_text(f, root, "stopReason", REASON_MAX, &why) < 0 ||
	    take_specific(f, get_member(root, "hookSpecificOutput")) < 0)
		return -1;
	if (continues)
		return 0;
	/* continue: false overrides the rest of the answer. At the stop point it means that the agent may stop. */
	a->stop = true;
	a->verdict = f->point == HOOK_STOP ? HOOK_VERDICT_NONE : HOOK_VERDICT_DENY;
	if (why) {
		free(a->reason);
		a->reason = mem_take(&why);
	}
	return 0;
}

/* The object that the output begins with; *ret_begins tells text from malformed JSON. */
static json_t *object_of(const char *s, size_t n, bool *ret_begins)
{
	json_error_t je;

	if (n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) /* a byte order mark, which some programs write */
		s += 3, n -= 3;
	while (n && strchr(" \t\r\n", s[0]))
		s++, n--;
	*ret_begins = n && s[0] == '{';
	return *ret_begins ? json_loadb(s, n, JSON_REJECT_DUPLICATES, &je) : NULL;
}

void hook_answer_read(enum hook_point point, const struct hook_output *o, struct hook_answer *ret)
{
	mem_auto char *why = trim_text(o->err, o->nerr, 1000);
	struct answer_reading f = { .point = point, .ret = ret };
	bool begins = false;

	*ret = (struct hook_answer){ 0 };
	if (o->nout > HOOK_OUTPUT_MAX) {
		hook_answer_fail(ret, "its output is longer than %u bytes", HOOK_OUTPUT_MAX);
	} else if (o->exit_code == 0) {
		json_auto_t *root = object_of(o->out, o->nout, &begins);

		if (begins && !root)
			hook_answer_fail(ret, "its output is not valid JSON");
		else if (root && read_answer(&f, root) < 0)
			hook_answer_fail(ret, "its reply is invalid: %s", f.wrong);
		else if (!root && (point == HOOK_USER_PROMPT_SUBMIT || point == HOOK_SESSION_START))
			ret->context = trim_text(o->out, o->nout, CONTEXT_MAX);
	} else if (o->exit_code == 2) {
		ret->verdict = HOOK_VERDICT_DENY;
		ret->reason = trim_text(o->err, o->nerr, REASON_MAX);
	} else if (o->exit_code > 0) {
		hook_answer_fail(ret, "exit code %d%s%s", o->exit_code, why ? ": " : "", why ? why : "");
	} else {
		hook_answer_fail(ret, "it was killed, or never ran");
	}
}

bool hook_answer_is_async(const char *out, size_t n)
{
	const char *end = memchr(out, '\n', n);
	bool begins;
	json_auto_t *root = object_of(out, end ? (size_t)(end - out) : n, &begins);

	return json_is_true(json_object_get(root, "async"));
}

/* ---- combining answers ---- */

void hook_ref_of(const struct policy_hook *h, struct hook_ref *ret)
{
	buf_auto struct buf text = BUF_INIT;

	policy_hook_text(h, &text);
	*ret = (struct hook_ref){ .file = mem_strdup(h->file),
				  .text = buf_take(&text),
				  .line = h->line,
				  .point = h->point,
				  .layer = h->layer,
				  .closed = policy_hook_closed(h) };
}

void hook_ref_copy(const struct hook_ref *r, struct hook_ref *ret)
{
	*ret = *r;
	ret->file = mem_strdup(r->file);
	ret->text = mem_strdup(r->text);
}

void hook_ref_done(struct hook_ref *r)
{
	free(r->file);
	free(r->text);
	*r = (struct hook_ref){ 0 };
}

void hook_ref_json(const struct hook_ref *r, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "file", r->file);
	jw_kuint(w, "line", r->line);
	jw_kstr(w, "rule", r->text);
	jw_kstr(w, "effect", "hook");
	jw_kstr(w, "layer", rule_layer_name(r->layer));
	jw_obj_end(w);
}

void hook_result_of(const struct hook_reply *reply, size_t n, struct hook_result *ret)
{
	*ret = (struct hook_result){ 0 };
	for (size_t i = 0; i < n; i++) {
		enum hook_verdict v = reply[i].answer.verdict;

		/* A failure denies only where the hook or its point says so; a workspace's hook cannot allow. */
		if (reply[i].answer.failed)
			v = reply[i].ref.closed ? HOOK_VERDICT_DENY : HOOK_VERDICT_NONE;
		else if (reply[i].ref.layer == RULE_OF_WORKSPACE && v == HOOK_VERDICT_ALLOW)
			v = HOOK_VERDICT_NONE;
		if (v > ret->verdict) {
			ret->verdict = v;
			ret->by = &reply[i];
		}
		if (reply[i].answer.failed)
			continue;
		/* A workspace's hook may not rewrite the input. The last rewriter in file order is used. */
		if (reply[i].answer.input && reply[i].ref.layer != RULE_OF_WORKSPACE)
			ret->rewriter = &reply[i];
		if (reply[i].answer.stop && !ret->stopper)
			ret->stopper = &reply[i];
	}
}

void hook_result_reason(const struct hook_result *s, char *ret, size_t cap)
{
	const struct hook_reply *by = s->by;
	const char *says = by->answer.reason ? by->answer.reason : "it gives no reason";

	snprintf(ret, cap, "hook %.90s (%.60s, line %u)%s: %.200s", by->ref.text, by->ref.file, by->ref.line,
		 by->answer.failed ? " failed, which denies" : "", says);
}

static void set_decision(struct policy_decision *d, enum policy_answer a, const struct hook_result *s,
			 const char *before)
{
	char why[POLICY_REASON_MAX];

	hook_result_reason(s, why, sizeof why);
	d->answer = a;
	d->source = POLICY_BY_HOOK;
	d->hook = &s->by->ref;
	snprintf(d->reason, sizeof d->reason, "%s%.*s", before, (int)(sizeof d->reason - strlen(before) - 1), why);
}

void policy_decision_hooks(struct policy_decision *d, int mode, const struct hook_result *s)
{
	/* A denial of the rules is final: no hook can weaken it. */
	if (s->verdict == HOOK_VERDICT_NONE || d->answer == POLICY_DENY)
		return;
	if (s->verdict == HOOK_VERDICT_DENY)
		set_decision(d, POLICY_DENY, s, "");
	/*
	 * `allow` answers only a question of the mode: not one of a rule, nor one that another hook deferred to a
	 * person.
	 */
	else if (s->verdict == HOOK_VERDICT_ALLOW && d->answer == POLICY_ASK && !d->ruled && !d->deferred)
		set_decision(d, POLICY_ALLOW, s, "");
	else if (s->verdict != HOOK_VERDICT_ALLOW && mode == MODE_NEVER)
		set_decision(d, POLICY_DENY, s, "mode never does not ask, and ");
	else if (s->verdict != HOOK_VERDICT_ALLOW && (d->answer != POLICY_ASK || s->verdict == HOOK_VERDICT_DEFER))
		set_decision(d, POLICY_ASK, s, "");
	d->deferred |= s->verdict == HOOK_VERDICT_DEFER;
}
