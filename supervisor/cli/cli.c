/*
 * What all verbs share: the tables of verbs and options, messages, and requests to the daemon.
 *
 * Messages go to stderr, results to stdout. Everything in a message that came from outside is sanitised
 * (print_message). A verb returns its exit status and never calls exit(), so that cleanups run. Verbs that run a
 * command exit with EXIT_BAILIFF for errors of bailiff's own, to tell them from the command's status.
 */

#include "supervisor/cli/cli.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define HINT_PREFIX "  "
#define USAGE_COLUMNS 80
#define OPTION_COLUMNS 29 /* of an option's name */

/* ---- verbs and options ---- */

const struct opt_row option_rows[OPT_COUNT] = {
#define OPTION(verb, name, letter, longname, arg, help) { #verb, letter, longname, arg, help },
#include "supervisor/cli/options.def"
#undef OPTION
};

struct opt_table verb_options(const struct verb *v)
{
	return (struct opt_table){ option_rows, OPT_COUNT, v->key, (v->flags & VERB_STOP) != 0 };
}

const struct verb *verb_find(const struct verb_table *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->rows[i].name, name) == 0)
			return &t->rows[i];
	return NULL;
}

/* NULL if nothing is similar enough to suggest. */
const char *verb_nearest(const struct verb_table *t, const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);

	for (size_t i = 0; i < t->n; i++)
		did_you_mean_try_prefix(&near, t->rows[i].name);
	return near.best;
}

/* Subverbs are the words at the start of a usage and after its bars. */
static bool has_subverb(const struct verb *v, const char *name)
{
	size_t n = strlen(name);

	for (const char *p = v->usage; p && n; p = strchr(p, '|')) {
		p += strspn(p, "| ");
		if (strncmp(p, name, n) == 0 && (!p[n] || strchr(" |", p[n])))
			return true;
	}
	return false;
}

const struct verb *verb_of_subverb(const struct verb_table *t, const char *name)
{
	const struct verb *found = NULL;

	for (size_t i = 0; i < t->n; i++) {
		if (!has_subverb(&t->rows[i], name))
			continue;
		if (found)
			return NULL;
		found = &t->rows[i];
	}
	return found;
}

/* The length of the next part of a usage, which is not broken: a word, a group in brackets, or a bar with its word. */
static size_t usage_part(const char *s)
{
	size_t n = s[0] == '|' && s[1] == ' ' ? 2 : 0;

	for (int depth = 0; s[n] && (s[n] != ' ' || depth > 0); n++)
		depth += (s[n] == '[') - (s[n] == ']');
	return n;
}

/* "usage: bailiff run …\n", in lines for a terminal of 80 columns; further lines are indented by `margin` and more. */
static void verb_usage(const struct verb *v, size_t margin, struct buf *out)
{
	static const char start[] = "usage: bailiff ";
	size_t column = margin + strlen(start) + strlen(v->name);

	buf_printf(out, "%s%s", start, v->name);
	for (const char *s = v->usage; *s; s += strspn(s, " ")) {
		size_t n = usage_part(s);

		if (column + 1 + n > USAGE_COLUMNS) {
			column = margin + strlen(start);
			buf_printf(out, "\n%*s", (int)column, "");
		} else {
			column++;
			buf_byte(out, ' ');
		}
		buf_append(out, s, n);
		column += n;
		s += n;
	}
	buf_byte(out, '\n');
}

/* Words from `column` on, in lines for a terminal of 80 columns; further lines are indented. Returns the last column.
 */
static size_t put_words(const char *text, size_t n, size_t indent, size_t column, struct buf *out)
{
	for (size_t at = 0, len; at < n; at += len) {
		len = strcspn(text + at, " \n");
		len = len < n - at ? len : n - at;
		if (column > indent && column + 1 + len > USAGE_COLUMNS) {
			buf_printf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent) {
			buf_byte(out, ' ');
			column++;
		}
		buf_append(out, text + at, len);
		column += len;
		len += strspn(text + at + len, " ");
	}
	return column;
}

/* A name, and the text about it in a second column. */
static void put_row(const char *name, size_t width, const char *text, struct buf *out)
{
	size_t n = strlen(name);

	buf_printf(out, "%s%s%*s", name, n < width ? "" : "\n", (int)(n < width ? width - n : width), "");
	put_words(text, strlen(text), width, width, out);
	buf_byte(out, '\n');
}

/*
 * The lines of a verb's details: prose makes one paragraph, "name   text" a row, and a line that begins with a space
 * continues the one above.
 */
static void put_details(const char *text, struct buf *out)
{
	size_t indent = 0, column = 0;

	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		size_t name = strcspn(text, " \n"), gap = strspn(text + name, " "), start = gap > 1 ? name + gap : 0;

		if (column && name && (start || indent)) {
			buf_byte(out, '\n');
			column = 0;
		}
		if (name) {
			indent = start;
			buf_append(out, text, start);
			column = column > start ? column : start;
		}
		start = name ? start : gap;
		column = put_words(text + start, n - start, indent, column, out);
	}
	buf_byte(out, '\n');
}

/* A long option without a letter is indented like those with one, so that the names are aligned. */
void verb_help(const struct verb *v, struct buf *out)
{
	bool any = false;

	verb_usage(v, 0, out);
	buf_byte(out, '\n');
	put_words(v->summary, strlen(v->summary), 0, 0, out);
	buf_byte(out, '\n');
	if (v->details) {
		buf_byte(out, '\n');
		put_details(v->details, out);
	}
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct opt_row *o = &option_rows[i];
		char left[64], letter[] = { '-', o->letter, ',', '\0' };

		if (strcmp(o->group, v->key) != 0)
			continue;
		if (!any)
			buf_str(out, "\noptions:\n");
		any = true;
		snprintf(left, sizeof(left), "  %-3s --%s%s%s", o->letter ? letter : "", o->name, o->arg ? " " : "",
			 o->arg ? o->arg : "");
		put_row(left, OPTION_COLUMNS, o->help, out);
	}
}

void verb_overview(const struct verb_table *t, struct buf *out)
{
	static const char end[] = "bailiff help VERB explains one. PROC and other ids may be shortened to a unique "
				  "beginning or end; @last is the newest.";
	size_t width = 0, group = 0;

	for (size_t i = 0; i < t->n; i++)
		if (strlen(t->rows[i].name) > width)
			width = strlen(t->rows[i].name);
	buf_str(out, "usage: bailiff VERB [options] [arguments]\n");
	for (size_t i = 0; i < t->n; i++) {
		char left[64];

		if (group < t->ngroups && t->groups[group].first == i)
			buf_printf(out, "\n%s:\n", t->groups[group++].title);
		snprintf(left, sizeof(left), "  %s", t->rows[i].name);
		put_row(left, width + 4, t->rows[i].summary, out);
	}
	buf_byte(out, '\n');
	put_words(end, strlen(end), 0, 0, out);
	buf_byte(out, '\n');
}

/* ---- errors ---- */

/* With --json everything is collected, and printed at the end as one object. */
static struct {
	bool on;
	enum err_code code;
	enum err_reason reason;
	struct buf message, more, hint;
	struct jw more_writer;
} report;

void cli_collect_errors(void)
{
	if (report.on)
		return;
	report.on = true;
	report.more_writer = jw_on(&report.more);
	jw_arr(&report.more_writer);
}

/* Prints what was collected, as a member of an object; then there is nothing. */
static void print_report(const char *name)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	const struct buf *message = report.message.len ? &report.message : &report.hint;

	if (!report.on || !message->len)
		return;
	jw_arr_end(&report.more_writer);
	jw_obj(&w);
	jw_kobj(&w, name);
	if (report.code)
		jw_kstr(&w, "code", err_code_name(report.code));
	jw_kopt(&w, "reason", err_reason_name(report.reason));
	jw_kstrn(&w, "message", message->data, message->len);
	if (report.hint.len && message != &report.hint)
		jw_kstrn(&w, "hint", report.hint.data, report.hint.len);
	if (report.more.len > 2)
		jw_kraw(&w, "more", report.more.data, report.more.len);
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	fd_write_all(STDERR_FILENO, out.data, out.len);
	buf_reset(&report.message), buf_reset(&report.hint), buf_reset(&report.more);
	report.code = ERR_NONE;
	report.reason = REASON_NONE;
	report.on = false;
}

void cli_print_notice(void)
{
	const bool on = report.on;

	print_report("notice");
	if (on && !report.on)
		cli_collect_errors();
}

void cli_print_errors(int status) { print_report(status ? "error" : "notice"); }

static void collect_message(bool hint, const char *fmt, va_list ap)
{
	buf_auto struct buf text = BUF_INIT;
	struct buf *to = hint ? &report.hint : &report.message;

	buf_vprintf(&text, fmt, ap);
	if (!hint && to->len) {
		jw_strn(&report.more_writer, buf_cstr(&text), text.len);
		return;
	}
	if (to->len)
		buf_byte(to, '\n');
	buf_append(to, buf_cstr(&text), text.len);
}

/* An error is one line: quoted text must not be able to imitate another line. */
static void print_message(const char *prefix, bool one_line, const char *fmt, va_list ap)
{
	buf_auto struct buf text = BUF_INIT, line = BUF_INIT;

	if (report.on) {
		collect_message(!one_line, fmt, ap);
		return;
	}
	buf_vprintf(&text, fmt, ap);
	buf_str(&line, prefix);
	(one_line ? text_sanitize_line : text_sanitize)(buf_cstr(&text), text.len, &line);
	buf_byte(&line, '\n');
	fd_write_all(STDERR_FILENO, line.data, line.len);
}

void cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message("bailiff: ", true, fmt, ap);
	va_end(ap);
}

void cli_hint(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_message(HINT_PREFIX, false, fmt, ap);
	va_end(ap);
}

/* c may be NULL where the error is not a reply of the daemon; then there is no advice either. */
int cli_fail(struct cli *c, int status, const struct err *e, const char *what_fmt, ...)
{
	buf_auto struct buf what = BUF_INIT;
	va_list ap;

	va_start(ap, what_fmt);
	buf_vprintf(&what, what_fmt, ap);
	va_end(ap);
	if (!report.message.len) {
		report.code = e->code;
		report.reason = e->reason;
	}
	cli_error("%s: %s", buf_cstr(&what), e->message);
	if (c && c->advice[0])
		cli_hint("%s", c->advice);
	return status;
}

/* Prints the message, the usage line and how to get help: three lines, not the whole help. */
int cli_usage(struct cli *c, const char *fmt, ...)
{
	buf_auto struct buf text = BUF_INIT, usage = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	cli_error("%s: %s", c->verb->name, buf_cstr(&text));
	verb_usage(c->verb, strlen(HINT_PREFIX), &usage);
	/* cli_hint adds the newline. */
	usage.data[usage.len - 1] = 0;
	cli_hint("%s", usage.data);
	cli_hint("bailiff help %s explains it", c->verb->name);
	return c->verb->flags & VERB_RUN ? EXIT_BAILIFF : EXIT_USAGE;
}

/* Every verb that can print JSON calls the option --json, so code shared by verbs can ask for it by name. */
bool cli_as_json(const struct cli *c)
{
	for (size_t i = 0; i < c->opts.ngiven; i++)
		if (strcmp(option_rows[c->opts.given[i].option].name, "json") == 0)
			return true;
	return false;
}

int cli_one_process(struct cli *c)
{
	if (c->opts.nargs == 1)
		return 0;
	return cli_usage(c, c->opts.nargs ? "one process at a time" : "which process?");
}

/* ---- requests ---- */

/* Verbs that only read do not start a daemon where there has never been one: it would have nothing to show. */
int cli_connect(struct cli *c, enum cli_start start)
{
	struct remote_options o = { .start = start == CLI_START_ALWAYS, .start_if_store = true };
	struct err e = ERR_INIT;

	if (remote_open(&o, &c->remote, &e) == 0)
		return 0;
	cli_error("%s: %s", c->verb->name, e.message);
	if (e.code == ERR_UNAVAILABLE && start != CLI_START_ALWAYS)
		cli_hint("bailiff run starts one; or start it with bailiffd or systemctl start bailiff");
	else if (e.code != ERR_SANDBOX) /* that message is complete: the kernel lacks a feature */
		cli_hint("bailiff doctor shows the sockets that are tried");
	return -1;
}

/* ---- errors of the daemon ---- */

/* The parameters of methods that options with other names set, in all verbs or in one. */
static const struct {
	const char *field, *option, *also; /* also: its name in verbs where `option` means something else */
	const char *verb;                  /* or verb and subverb */
} parameters[] = {
	{ "sandbox.readRoots", "ro", NULL },
	{ "sandbox.writeRoots", "rw", NULL },
	{ "sandbox.hidden", "hide", NULL },
	{ "sandbox.network", "net", NULL },
	{ "sandbox.allowHosts", "allow-host", NULL },
	{ "sandbox.tmpBytes", "tmp-size", NULL },
	{ "limits.wallMs", "timeout", "command-timeout" },
	{ "limits.idleMs", "idle-timeout", NULL },
	{ "limits.cpuMs", "cpu-time", NULL },
	{ "limits.outputBytes", "output-limit", NULL },
	{ "limits.memoryBytes", "memory", NULL },
	{ "limits.memoryHighBytes", "memory-high", NULL },
	{ "limits.pids", "pids", NULL },
	{ "limits.cpus", "cpus", NULL },
	{ "limits.ioWeight", "io-weight", NULL },
	{ "limits.ioReadBps", "io-read", NULL },
	{ "limits.ioWriteBps", "io-write", NULL },
	{ "maxParallel", "parallel", NULL },
	{ "until.regex", "regex", NULL },
	{ "types", "type", NULL },
	{ "retryPolicy.maxAttempts", "attempts", NULL },
	{ "retryPolicy.timeoutMs", "item-timeout", NULL },
	{ "maxRuntimeMs", "timeout", NULL, "job" },
	{ "timeoutMs", "timeout", NULL, "task" },
	{ "idleMs", "idle-timeout", NULL, "task" },
	{ "model", "model", NULL, "model add" },
	{ "provider", "provider", NULL, "model add" },
	{ "dialect", "dialect", NULL, "model add" },
	{ "baseUrl", "base-url", NULL, "model add" },
	{ "keyFile", "key-file", NULL, "model add" },
	{ "keyCommand", "key-command", NULL, "model add" },
	{ "caFile", "ca-file", NULL, "model add" },
	{ "effort", "effort", NULL, "model add" },
	{ "contextTokens", "context", NULL, "model add" },
	{ "maxOutputTokens", "max-output", NULL, "model add" },
	{ "title", "title", NULL, "session" },
};

static bool is_given(const struct cli *c, const char *name)
{
	for (size_t i = 0; name && i < c->opts.ngiven; i++)
		if (strcmp(option_rows[c->opts.given[i].option].name, name) == 0)
			return true;
	return false;
}

static bool is_verb(const struct cli *c, const char *verb)
{
	size_t n = strcspn(verb, " ");

	return strlen(c->verb->key) == n && strncmp(verb, c->verb->key, n) == 0 &&
	       (!verb[n] || (c->opts.nargs && strcmp(verb + n + 1, c->opts.args[0]) == 0));
}

/* The option that sets a parameter. One that is missing is named only if the row is its verb's own. */
static const char *option_of(const struct cli *c, const char *field)
{
	for (size_t i = 0; i < countof(parameters); i++) {
		const char *option = is_given(c, parameters[i].also) ? parameters[i].also : parameters[i].option,
			   *verb = parameters[i].verb;

		if (strcmp(parameters[i].field, field) == 0 && (verb ? is_verb(c, verb) : is_given(c, option)))
			return option;
	}
	return is_given(c, field) ? field : NULL;
}

/* "limits.wallMs: must be …" names a parameter, but --timeout was typed. */
static void name_option(const struct cli *c, struct jval error, struct err *e)
{
	char field[64];
	size_t n = jval_str(jval_path(error, "data.field"), field, sizeof(field));

	if (!n || n >= sizeof(field) || strncmp(e->message, field, n) != 0 || e->message[n] != ':')
		return;
	field[strcspn(field, "[")] = '\0'; /* sandbox.readRoots[0] */
	const char *option = option_of(c, field);
	mem_auto char *text = option ? mem_printf("option '--%s'%s", option, e->message + n) : NULL;

	if (text)
		snprintf(e->message, sizeof(e->message), "%s", text);
}

/* "FIELD: what is wrong: what to do", or "…; what to do": such a message needs no general advice. */
static bool has_own_advice(struct jval error)
{
	char message[512], field[64];
	size_t n = jval_str(jval_path(error, "data.field"), field, sizeof(field));

	jval_str(jval_get(error, "message"), message, sizeof(message));
	const char *text = n < sizeof(field) && strncmp(message, field, n) == 0 ? message + n : message;
	text += strspn(text, ": ");
	return strstr(text, ": ") || strstr(text, "; ");
}

/* A denial by policy: where its rule is, and how to see the decision. */
static void advise_denied(struct jval error, struct buf *out)
{
	char process[64], file[160], layer[32];
	struct jval rules = jval_path(error, "data.permissionDecision.ruleRefs");
	struct jiter it = jiter_on(rules);

	jval_str(jval_path(error, "data.processId"), process, sizeof(process));
	bool found = false;
	while (rules.type == JT_ARRAY && !found && jiter_next(&it))
		found = !jval_is_str(jval_get(it.value, "effect"), "allow");
	if (found && jval_str(jval_get(it.value, "file"), file, sizeof(file))) {
		jval_str(jval_get(it.value, "layer"), layer, sizeof(layer));
		buf_printf(out, "the rule is in %s, line %llu (%s)", file,
			   (unsigned long long)jval_uint(jval_get(it.value, "line"), 0), layer);
	}
	if (process[0])
		buf_printf(out, "%sbailiff policy explain %s shows the decision", out->len ? "; " : "", process);
}

/*
 * The daemon's advice is written for programs and names methods of its socket. Here it is in terms of the command line,
 * by the error's reason, otherwise by its category. The daemon's is shown for those that are in neither table.
 */
static const struct {
	enum err_reason reason;
	const char *advice;
} reason_advice[] = {
	{ REASON_DRAINING, "bailiff daemon status shows what still runs; bailiff daemon drain --cancel ends a drain" },
	{ REASON_POLICY_INVALID, "bailiff policy show names the layers; bailiff policy lint FILE checks a file" },
	{ REASON_NO_TERMINAL, "bailiff run -t gives it one" },
	{ REASON_NO_STDIN, "bailiff run -d -i gives it one" },
	{ REASON_NOT_COW, "bailiff run --cow and bailiff sandbox create --cow hold changes back" },
	{ REASON_NOT_ENFORCEABLE,
	  "do what the message says, or leave the option out: nothing runs with less than was requested" },
	{ REASON_NO_USER_NAMESPACES, "" }, /* the message has it */
	{ REASON_ROOT_WRITE_ROOTS,
	  "run it as a plain user or with --profile readonly, or list the folder in the file root-write-roots" },
	{ REASON_SANDBOX_ENDED, "create another one: bailiff sandbox create" },
	{ REASON_TASK_INCOMPLETE, "bailiff task show lists what is missing" },
	{ REASON_OUTCOME_UNKNOWN, "check whether it took effect before you repeat it" },
};

static const struct {
	const char *category, *advice;
	bool general; /* wrong where the message says what to do */
} category_advice[] = {
	{ "not_found",
	  "check the id; bailiff ps -a, bailiff session list, bailiff task list and bailiff job list show them", true },
	{ "unavailable", "try again later; bailiff doctor shows what is missing", true },
	{ "conflict", "use another id, or repeat the first command unchanged", true },
	{ "not_allowed", "run it as the user who owns it, or as root", true },
	{ "invalid_state", "check its status first: bailiff ps -a, or the show verb of what it belongs to", true },
	{ "corrupt", "bailiff store verify names the damage; bailiff store restore brings a backup back", false },
	{ "sequence_expired", "older events were removed by retention; bailiff events lists the kept ones", false },
	{ "method_not_found", "bailiff call list_methods lists them", false },
};

const char *cli_reason_advice(enum err_reason reason)
{
	for (size_t i = 0; reason && i < countof(reason_advice); i++)
		if (reason_advice[i].reason == reason)
			return reason_advice[i].advice;
	return NULL;
}

static void choose_advice(struct cli *c, struct jval error, enum err_reason reason)
{
	struct jval category = jval_path(error, "data.category");

	jval_str(jval_path(error, "data.advice"), c->advice, sizeof(c->advice));
	if (cli_reason_advice(reason))
		snprintf(c->advice, sizeof(c->advice), "%s", cli_reason_advice(reason));
	if (jval_path(error, "data.reason").type == JT_STRING) /* also one that only a newer daemon has */
		return;
	if (jval_is_str(category, "invalid"))
		snprintf(c->advice, sizeof(c->advice), "bailiff help %s explains its arguments", c->verb->name);
	for (size_t i = 0; i < countof(category_advice); i++)
		if (jval_is_str(category, category_advice[i].category))
			snprintf(c->advice, sizeof(c->advice), "%s",
				 category_advice[i].general && has_own_advice(error) ? "" : category_advice[i].advice);
}

static void set_advice(struct cli *c, struct jval error, enum err_reason reason)
{
	struct jval field = jval_path(error, "data.field");
	buf_auto struct buf denied = BUF_INIT;

	choose_advice(c, error, reason);
	if (jval_is_str(field, "sandbox.allowHosts") && !is_given(c, "allow-host"))
		snprintf(c->advice, sizeof(c->advice), "--allow-host HOST names one, and may be repeated");
	if (jval_is_str(field, "port") || jval_is_str(field, "hostPort"))
		snprintf(c->advice, sizeof(c->advice),
			 "bailiff ports lists published ports; bailiff unpublish closes one");
	if (jval_is_str(jval_path(error, "data.category"), "permission_denied"))
		advise_denied(error, &denied);
	if (denied.len)
		snprintf(c->advice, sizeof(c->advice), "%s", denied.data);
}

/* Replaces parameters and advice that only make sense to programs. */
static int cli_call(struct cli *c, const char *method, const struct buf *params, struct remote_answer *ret,
		    struct err *e)
{
	int r = remote_call(c->remote, method, params, ret, e);

	c->advice[0] = 0;
	if (r == 0 || ret->error.type == JT_NONE)
		return r;
	set_advice(c, ret->error, e->reason);
	name_option(c, ret->error, e);
	return r;
}

void request_done(struct request *q)
{
	buf_done(&q->params);
	remote_answer_done(&q->answer);
}

/* Until here the parameters are members without braces, so that callers need not open and close the object. */
static int send_request(struct cli *c, struct request *q, const char *method)
{
	buf_auto struct buf object = BUF_INIT;
	int r;

	buf_printf(&object, "{%s}", buf_cstr(&q->params));
	r = cli_call(c, method, &object, &q->answer, &q->e);
	q->result = q->answer.result;
	return r;
}

int request_read(struct cli *c, struct request *q, const char *method) { return send_request(c, q, method); }

/* A change gets an idempotency key, so that it can be sent again after a lost connection without being done twice. */
int request_change(struct cli *c, struct request *q, const char *method)
{
	remote_key(c->remote, &q->w);
	return send_request(c, q, method);
}
