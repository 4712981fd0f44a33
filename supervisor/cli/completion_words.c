#include "supervisor/cli/completion_words.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/list_pages.h"
#include "supervisor/client/remote.h"

#include <string.h>

/*
 * A source of candidates: literal words, a list from the daemon, or the shell's own files and commands. SOURCE_LIVE
 * lists only what has not ended.
 */
enum source_kind {
	SOURCE_NONE,
	SOURCE_WORDS,
	SOURCE_LISTING,
	SOURCE_LIVE,
	SOURCE_VERBS,
	SOURCE_FILES,
	SOURCE_COMMANDS
};

struct source {
	enum source_kind kind;
	const char *words;          /* separated by spaces; or the list method */
	const char *member, *field; /* of the method's result, and of each element */
};

static const struct source none = { SOURCE_NONE }, files = { SOURCE_FILES }, commands = { SOURCE_COMMANDS },
			   verb_names = { SOURCE_VERBS };
static const struct source processes = { SOURCE_LISTING, "list_processes", "processes", "processId" };
static const struct source running = { SOURCE_LIVE, "list_processes", "processes", "processId" };
static const struct source sessions = { SOURCE_LISTING, "list_sessions", "sessions", "sessionId" };
static const struct source threads = { SOURCE_LISTING, "list_sessions", "sessions", "firstThreadId" };
static const struct source tasks = { SOURCE_LISTING, "list_tasks", "tasks", "taskId" };
static const struct source jobs = { SOURCE_LISTING, "list_jobs", "jobs", "jobId" };
static const struct source subagents = { SOURCE_LISTING, "list_subagents", "subagents", "subagentId" };
static const struct source channels = { SOURCE_LISTING, "list_channels", "channels", "channelId" };
static const struct source actions = { SOURCE_LISTING, "list_actions", "actions", "actionId" };
static const struct source methods = { SOURCE_LISTING, "list_methods", "methods", "name" };
static const struct source profiles = { SOURCE_LISTING, "get_sandbox", "profiles", "name" };
static const struct source clients = {
	SOURCE_WORDS,
#define CLIENT(name, title, where, user, project, form, then) name " "
#include "supervisor/cli/setup_clients.def"
#undef CLIENT
};

/* Values of options, by long name. Options whose value name lists alternatives ("none|host|allow") need no row. */
static const struct {
	const char *option;
	const struct source *source;
} option_values[] = {
	{ "profile", &profiles },
	{ "session", &sessions },
	{ "task", &tasks },
	{ "parent", &tasks },
	{ "after", &tasks },
	{ "thread", &threads },
	{ "process", &processes },
	{ "stream", &(const struct source){ SOURCE_WORDS, "stdout stderr pty" } },
	{ "signal", &(const struct source){ SOURCE_WORDS, "TERM KILL INT HUP QUIT USR1 USR2 STOP CONT WINCH ALRM" } },
	{ "size", &(const struct source){ SOURCE_WORDS, "newest smallest keep" } },
};

/*
 * Arguments after the verb and its subverb, if it has any (NULL: any other). The last matching row applies to further
 * arguments.
 */
static const struct {
	const char *verb, *subverb;
	size_t position; /* of the argument, counted after the subverb */
	const struct source *source;
} arguments[] = {
	{ "run", NULL, 0, &commands },
	{ "logs", NULL, 0, &processes },
	{ "attach", NULL, 0, &running },
	{ "screen", NULL, 0, &processes },
	{ "wait", NULL, 0, &processes },
	{ "input", NULL, 0, &running },
	{ "input", NULL, 1, &none },
	{ "resize", NULL, 0, &running },
	{ "resize", NULL, 1, &none },
	{ "kill", NULL, 0, &running },
	{ "diff", NULL, 0, &processes },
	{ "diff", NULL, 1, &files },
	{ "apply", NULL, 0, &processes },
	{ "apply", NULL, 1, &files },
	{ "discard", NULL, 0, &processes },
	{ "discard", NULL, 1, &files },
	{ "session", "show", 0, &sessions },
	{ "session", "update", 0, &sessions },
	{ "thread", "list", 0, &sessions },
	{ "thread", NULL, 0, &threads },
	{ "thread", NULL, 1, &none },
	{ "approve", NULL, 0, &actions },
	{ "deny", NULL, 0, &actions },
	{ "policy", "check", 0, &commands },
	{ "policy", "lint", 0, &files },
	{ "policy", "explain", 0, &actions },
	{ "policy", "explain", 0, &processes },
	{ "policy", "suggest", 0, &processes },
	{ "policy", "mode", 0, &sessions },
	{ "policy", "mode", 1,
	  &(const struct source){ SOURCE_WORDS, "default untrusted on_request on_failure never plan bypass auto" } },
	{ "task", "create", 0, &none },
	{ "task", "list", 0, &none },
	{ "task", NULL, 0, &tasks },
	{ "task", NULL, 1, &none },
	{ "job", "create", 0, &commands },
	{ "job", NULL, 0, &jobs },
	{ "job", NULL, 1, &none },
	{ "subagent", "spawn", 0, &none },
	{ "subagent", NULL, 0, &subagents },
	{ "channel", "connect", 0,
	  &(const struct source){ SOURCE_WORDS, "websocket sse json_rpc grpc http_json stdio in_process custom" } },
	{ "channel", NULL, 0, &channels },
	{ "channel", NULL, 1, &none },
	{ "snapshot", NULL, 0,
	  &(const struct source){ SOURCE_WORDS,
				  "session_snapshot thread_read_model tool_inventory_snapshot queue_snapshot "
				  "task_snapshot context_boundary_snapshot "
				  "artifact_checkpoint_summary permission_sandbox_summary "
				  "execution_environment_snapshot routing_limit_summary "
				  "subagent_job_summary channel_summary evidence_summary benchmark_summary" } },
	{ "sandbox", "show", 0, &profiles },
	{ "sandbox", "show", 0, &processes },
	{ "export", "cast", 0, &processes },
	{ "export", NULL, 0, &sessions },
	{ "export", NULL, 0, &tasks },
	{ "export", NULL, 0, &jobs },
	{ "replay", NULL, 0, &processes },
	{ "store", NULL, 0, &files },
	{ "call", NULL, 0, &methods },
	{ "setup", NULL, 0, &clients },
	{ "help", NULL, 0, &verb_names },
};

struct collection {
	struct cli *cli;
	const char *prefix;
	int lead; /* length of the word before the prefix: "--net=" */
	const char *field;
	struct buf *out;
};

/* Clients choose some ids freely: only words that no shell needs to quote are offered. */
static bool is_plain(const char *word)
{
	return word[0] &&
	       word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-")] == 0;
}

static void add_word(struct collection *into, const char *word)
{
	if (is_plain(word) && strncmp(word, into->prefix, strlen(into->prefix)) == 0)
		buf_printf(into->out, "%.*s%s\n", into->lead, into->prefix - into->lead, word);
}

static void add_words(struct collection *into, const char *words, const char *separators)
{
	for (const char *p = words; *p; p += strspn(p, separators)) {
		size_t n = strcspn(p, separators);
		char word[64];

		snprintf(word, sizeof(word), "%.*s", (int)n, p);
		add_word(into, word);
		p += n;
	}
}

static void on_element(void *ctx, struct jval element)
{
	struct collection *into = ctx;
	char id[128];

	if (jval_str(jval_get(element, into->field), id, sizeof(id)) < sizeof(id))
		add_word(into, id);
}

static void add_listing(struct collection *into, const struct source *s)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct remote_options options = { 0 };
	struct err e = ERR_INIT;

	if (!into->cli->remote && remote_open(&options, &into->cli->remote, &e) < 0)
		return;
	into->field = s->field;
	if (s->kind == SOURCE_LIVE) {
		list_pages_processes(into->cli, true, true, on_element, into, &e);
		return;
	}
	if (s == &actions)
		buf_str(&params, "{\"status\":\"pending\"}");
	else if (s == &profiles)
		buf_str(&params, "{\"profile\":\"host\",\"cwd\":\"/\"}");
	if (remote_call(into->cli->remote, s->words, params.len ? &params : NULL, &a, &e) < 0)
		return;
	for (struct jiter it = jiter_on(jval_get(a.result, s->member)); jiter_next(&it);)
		on_element(into, it.value);
}

static void add_source(struct collection *into, const struct source *s)
{
	switch (s->kind) {
	case SOURCE_NONE: break;
	case SOURCE_WORDS: add_words(into, s->words, " "); break;
	case SOURCE_LISTING:
	case SOURCE_LIVE: add_listing(into, s); break;
	case SOURCE_VERBS:
		for (size_t i = 0; i < into->cli->verbs->n; i++)
			add_word(into, into->cli->verbs->rows[i].name);
		break;
	case SOURCE_FILES: buf_str(into->out, COMPLETION_WORDS_FILES "\n"); break;
	case SOURCE_COMMANDS: buf_str(into->out, COMPLETION_WORDS_COMMANDS "\n"); break;
	}
}

static void add_option_value(struct collection *into, const struct opt_row *option)
{
	for (size_t i = 0; i < countof(option_values); i++)
		if (strcmp(option_values[i].option, option->name) == 0) {
			add_source(into, option_values[i].source);
			return;
		}
	if (strchr(option->arg, '|'))
		add_words(into, option->arg, "|");
	else if (strcmp(option->arg, "PATH") == 0 || strcmp(option->arg, "DIR") == 0 ||
		 strcmp(option->arg, "FILE") == 0 || strcmp(option->arg, "PACK") == 0)
		add_source(into, &files);
}

static void add_option_names(struct collection *into, const struct verb *v)
{
	add_word(into, "--help");
	for (size_t i = 0; i < OPT_COUNT; i++) {
		char name[64];

		if (strcmp(option_rows[i].group, v->key) != 0)
			continue;
		snprintf(name, sizeof(name), "--%s", option_rows[i].name);
		add_word(into, name);
	}
}

/* The option named by `word` if it takes a value, else NULL. */
static const struct opt_row *option_with_value(const struct verb *v, const char *word)
{
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *o = &option_rows[i];

		if (strcmp(o->group, v->key) != 0 || !o->arg)
			continue;
		if ((strncmp(word, "--", 2) == 0 && strcmp(word + 2, o->name) == 0) ||
		    (o->letter && word[0] == '-' && word[1] == o->letter && !word[2]))
			return o;
	}
	return NULL;
}

/* "verify rebuild …": the subverbs, i.e. the words at the start of a usage or after bars. */
static void write_subverbs(const struct verb *v, struct buf *out)
{
	for (const char *p = v->usage; *p;) {
		size_t n = strcspn(p, " |");

		if (n && p[0] >= 'a' && p[0] <= 'z')
			buf_printf(out, "%s%.*s", out->len ? " " : "", (int)n, p);
		p += strcspn(p, "|");
		p += strspn(p, "| ");
	}
}

static void add_argument(struct collection *into, const struct verb *v, const char *subverb, size_t position)
{
	size_t at = 0;
	bool own = false;

	/* Rows for the subverb take precedence over general ones; the last position repeats. */
	for (size_t i = 0; i < countof(arguments); i++)
		if (strcmp(arguments[i].verb, v->name) == 0 && subverb && arguments[i].subverb &&
		    strcmp(arguments[i].subverb, subverb) == 0)
			own = true;
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < countof(arguments); i++) {
			bool fits = strcmp(arguments[i].verb, v->name) == 0 &&
				    (own ? arguments[i].subverb && strcmp(arguments[i].subverb, subverb) == 0
					 : !arguments[i].subverb);

			if (!fits || arguments[i].position > position)
				continue;
			if (pass == 0)
				at = arguments[i].position > at ? arguments[i].position : at;
			else if (arguments[i].position == at)
				add_source(into, arguments[i].source);
		}
}

/* What the words before the completed one determine. */
struct context {
	const char *subverb;
	size_t position;
	bool options_over;
	const struct opt_row *value_of;
};

static struct context read_context(const struct verb *v, bool has_subverbs, const char *const *words, size_t n)
{
	struct context x = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (x.value_of) {
			/* bash splits --net=host into three words */
			if (strcmp(words[i], "=") != 0)
				x.value_of = NULL;
		} else if (!x.options_over && strcmp(words[i], "--") == 0) {
			x.options_over = true;
		} else if (!x.options_over && words[i][0] == '-' && words[i][1]) {
			x.value_of = option_with_value(v, words[i]);
		} else if (has_subverbs && !x.subverb) {
			x.subverb = words[i];
		} else {
			x.position++;
			x.options_over |= v->flags & VERB_STOP;
		}
	}
	return x;
}

/* "--net=ho" as one word. */
static void complete_joined_value(struct collection *into, const struct verb *v, size_t name_len)
{
	char name[64];
	const struct opt_row *o;

	snprintf(name, sizeof(name), "%.*s", (int)name_len, into->prefix);
	o = option_with_value(v, name);
	if (!o)
		return;
	into->lead = (int)name_len + 1;
	into->prefix += into->lead;
	add_option_value(into, o);
}

static void complete_verb(struct collection *into, const struct verb *v, const char *const *words, size_t n)
{
	buf_auto struct buf subverbs = BUF_INIT;
	size_t name_len = strcspn(into->prefix, "=");
	struct context x;

	write_subverbs(v, &subverbs);
	x = read_context(v, subverbs.len > 0, words, n);
	if (x.value_of) {
		if (strcmp(into->prefix, "=") == 0)
			into->prefix = "";
		add_option_value(into, x.value_of);
	} else if (x.options_over &&
		   (strcmp(v->name, "task") == 0 || strcmp(v->name, "turn") == 0 || strcmp(v->name, "subagent") == 0)) {
		add_source(into, &commands);
	} else if (!x.options_over && into->prefix[0] == '-') {
		if (into->prefix[name_len])
			complete_joined_value(into, v, name_len);
		else
			add_option_names(into, v);
	} else if (subverbs.len && !x.subverb) {
		add_words(into, subverbs.data, " ");
	} else {
		add_argument(into, v, x.subverb, x.position);
	}
}

void completion_words_write(struct cli *c, const char *const *words, size_t n, struct buf *out)
{
	struct collection into = { .cli = c, .prefix = n ? words[n - 1] : "", .out = out };
	const struct verb *v = n > 1 ? verb_find(c->verbs, words[0]) : NULL;

	if (n <= 1)
		add_source(&into, &verb_names);
	else if (v)
		complete_verb(&into, v, words + 1, n - 2);
}
