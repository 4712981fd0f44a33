/*
 * Interprets the rows of verbs.def. A specification is a string of tokens that are separated by blanks; one token maps
 * an argument or an option to a parameter of the method (struct mapping). The strings are part of the program, so
 * malformed ones are programmer errors.
 */

#include "supervisor/cli/noun.h"

#include "runtime/base/text.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define TOKEN_MAX 128

/* What one token says; the parts that it lacks are "". */
struct mapping {
	char token[TOKEN_MAX]; /* the parts point into it */
	const char *source;    /* of options: their names; of a constant: "" */
	const char *object, *name;
	const char *otherwise; /* NAME|OPTION of an argument */
	const char *kind;      /* of a constant: its value */
	bool required;         /* OPTION! */
	bool many;             /* NAME[] */
};

/* Ends the text before `mark` and returns what follows it; without the mark, "". */
static const char *split_at(const char *text, const char *mark)
{
	char *at = strstr(text, mark);

	if (!at)
		return "";
	*at = '\0';
	return at + strlen(mark);
}

/* Returns the text after the token; NULL at the end of the specification. */
static const char *next_mapping(const char *spec, bool option, struct mapping *ret)
{
	struct mapping *m = ret;

	spec += strspn(spec, " ");
	size_t n = strcspn(spec, " ");
	/*
	 * The parts are cut out of a copy; the order of the cuts follows the syntax: kind, option, required,
	 * alternative, many, object.
	 */
	assert(n < TOKEN_MAX);
	if (!n)
		return NULL;
	memcpy(m->token, spec, n);
	m->token[n] = '\0';
	m->source = m->name = m->token;
	m->kind = split_at(m->token, ":");
	const char *name = option ? split_at(m->token, "=") : "";
	m->required = option && m->source[strcspn(m->source, "!")];
	(void)split_at(m->source, "!");
	m->name = name[0] ? name : m->token;
	m->otherwise = option ? "" : split_at(m->name, "|");
	m->many = strstr(m->name, "[]") != NULL;
	(void)split_at(m->name, "[]");
	const char *member = split_at(m->name, ".");
	m->object = member[0] ? m->name : "";
	m->name = member[0] ? member : m->name;
	return spec + n;
}

/* The verb's option with this long name. */
static int find_option(const struct cli *c, const char *name, size_t len)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (strcmp(option_rows[i].group, c->verb->key) == 0 && strlen(option_rows[i].name) == len &&
		    strncmp(option_rows[i].name, name, len) == 0)
			return i;
	/* A row names an option that its verb does not have: a programmer error, like the assertions. */
	abort();
}

/* "A|B": one of them was given; "A&B": both. *ret_option: the last one named. */
static bool is_given(const struct cli *c, const char *source, int *ret_option)
{
	bool all = strchr(source, '&') != NULL, any = false, every = true;

	for (const char *at = source; *at; at += strspn(at, "|&")) {
		size_t n = strcspn(at, "|&");

		*ret_option = find_option(c, at, n);
		any |= opts_has(&c->opts, *ret_option);
		every &= opts_has(&c->opts, *ret_option);
		at += n;
	}
	return all ? every : any;
}

/* A value without its name. `what` names the argument or option in errors. 0, or the exit status. */
static int write_value(struct cli *c, const struct mapping *m, const char *what, const char *value, struct jw *w)
{
	int kind = id_kind_of(m->kind, strlen(m->kind));
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX], *end;
	uint64_t number;

	if (!m->kind[0]) {
		jw_str(w, value);
	} else if (kind >= 0) {
		if (id_lookup(c, (enum id_kind)kind, value, id) < 0)
			return EXIT_FAILED;
		jw_str(w, id);
	} else if (strcmp(m->kind, "uint") == 0) {
		number = strtoull(value, &end, 10);
		/* strtoull accepts blanks and signs; "-1" would become a huge number. */
		if (*value < '0' || *value > '9' || *end)
			return cli_usage(c, "%s: '%s' is not a whole number", what, value);
		jw_uint(w, number);
	} else if (strcmp(m->kind, "number") == 0) {
		double v = strtod(value, &end);
		if (!*value || *end || !(v >= 0 && v <= 1e9))
			return cli_usage(c, "%s: '%s' is not a number", what, value);
		if (v == (double)(uint64_t)v)
			jw_uint(w, (uint64_t)v);
		else
			jw_real(w, v);
	} else if (strcmp(m->kind, "time") == 0) {
		if (text_duration_ms(value, &number, &e) < 0)
			return cli_usage(c, "%s: %s", what, e.message);
		jw_uint(w, number);
	} else {
		struct jval v = jval_of(value, strlen(value));

		assert(strcmp(m->kind, "json") == 0);
		if (v.type != JT_OBJECT)
			return cli_usage(c, "%s: must be a JSON object", what);
		jw_raw(w, v.text, v.len);
	}
	return 0;
}

/* Flags, which have no value: "yes", "no", "unless" and "only". 1: it is another kind; 0: nothing to write. */
static int flag_value(const char *kind, bool given, bool *ret)
{
	if (strcmp(kind, "yes") == 0 || strcmp(kind, "no") == 0) {
		*ret = kind[0] == 'y';
		return given ? 2 : 0;
	}
	if (strcmp(kind, "unless") == 0 || strcmp(kind, "only") == 0) {
		*ret = kind[0] == 'u';
		return given ? 0 : 2;
	}
	return 1;
}

/* The value of an option, or of all its occurrences. */
static int write_option(struct cli *c, const struct mapping *m, int option, struct jw *w)
{
	char what[80];
	int status = 0;

	snprintf(what, sizeof(what), "option '--%s'", option_rows[option].name);
	if (!m->many)
		return write_value(c, m, what, opts_get(&c->opts, option), w);
	jw_arr(w);
	for (size_t i = 0; i < c->opts.ngiven && !status; i++)
		if (c->opts.given[i].option == option)
			status = write_value(c, m, what, c->opts.given[i].value, w);
	jw_arr_end(w);
	return status;
}

/* Members of one object must be adjacent in the specification: it is closed with the first other one. */
int noun_options(struct cli *c, const char *spec, struct jw *w)
{
	char open[TOKEN_MAX] = ""; /* the object that is being written */
	struct mapping m;

	while ((spec = next_mapping(spec, true, &m))) {
		bool constant = !m.source[0], flag = false;
		int option = -1, status = 0;
		bool given = !constant && is_given(c, m.source, &option);
		int how = constant ? 1 : flag_value(m.kind, given, &flag);

		if (m.required && !given)
			return cli_usage(c, "%s needs --%s: %s", c->opts.args[0], m.source, option_rows[option].help);
		if (open[0] && strcmp(open, m.object) != 0) {
			jw_obj_end(w);
			open[0] = '\0';
		}
		/* A constant in an object accompanies its other members. */
		if (how == 0 || (how == 1 && !given && !constant) || (constant && m.object[0] && !open[0]))
			continue;
		if (m.object[0] && !open[0]) {
			jw_kobj(w, m.object);
			snprintf(open, sizeof(open), "%s", m.object);
		}
		jw_key(w, m.name);
		if (how == 2)
			jw_bool(w, flag);
		else if (constant && strspn(m.kind, "0123456789") == strlen(m.kind))
			jw_raw(w, m.kind, strlen(m.kind));
		else if (constant)
			jw_str(w, m.kind);
		else
			status = write_option(c, &m, option, w);
		if (status)
			return status;
	}
	if (open[0])
		jw_obj_end(w);
	return 0;
}

/* The arguments after the subverb's name, which is missing if the verb has no subverbs. */
static int write_arguments(struct cli *c, const struct subverb *s, struct jw *w)
{
	const char *spec = s->args;
	size_t at = s->name[0] ? 1 : 0;
	struct mapping m;
	int option, status = 0;

	for (; (spec = next_mapping(spec, false, &m)) && !status; at++) {
		const char *value = at < c->opts.nargs ? c->opts.args[at] : strcmp(m.kind, "json") == 0 ? "{}" : "";

		if (m.otherwise[0] && at >= c->opts.nargs && !is_given(c, m.otherwise, &option))
			return cli_usage(c, "%s needs a text, or --%s", s->name, m.otherwise);
		jw_key(w, m.name);
		if (m.many)
			jw_arr(w);
		status = write_value(c, &m, m.name, value, w);
		while (m.many && !status && ++at < c->opts.nargs)
			status = write_value(c, &m, m.name, c->opts.args[at], w);
		if (m.many)
			jw_arr_end(w);
	}
	return status;
}

/* `member` of a result (NULL: all of it, for people), or with --json the whole result. */
static int print_result(struct cli *c, struct jval result, const char *member)
{
	buf_auto struct buf out = BUF_INIT;

	if (cli_as_json(c) || !member)
		return format_record(result, cli_as_json(c));
	format_scalar(jval_get(result, member), &out);
	buf_byte(&out, '\n');
	return format_out(&out);
}

/* "VERB SUBVERB: why", and the advice. */
static int fail_request(struct cli *c, const struct err *e)
{
	const char *name = c->opts.nargs ? c->opts.args[0] : "";

	return cli_fail(c, EXIT_FAILED, e, "%s%s%s", c->verb->name, name[0] ? " " : "", name);
}

int noun_change(struct cli *c, struct request *q, const char *method, const char *member)
{
	return request_change(c, q, method) < 0 ? fail_request(c, &q->e) : print_result(c, q->result, member);
}

static bool collect_element(void *ctx, struct jval element)
{
	jw_raw(ctx, element.text, element.len);
	return true;
}

/* All pages of a list, or one reply of a method that has no pages (which may report a timeout). */
static int run_list(struct cli *c, const struct subverb *s, struct request *q)
{
	buf_auto struct buf all = BUF_INIT;
	struct jw w = jw_on(&all);
	struct err e = ERR_INIT;
	int status;

	if (noun_first_given(c, "quiet") && cli_as_json(c))
		return cli_usage(c, "-q and --json exclude each other");
	if (s->flags & SUB_WHOLE && cli_as_json(c))
		return request_read(c, q, s->method) < 0 ? fail_request(c, &q->e) : format_record(q->result, true);
	/* A wait method blocks in the daemon and has no pages. */
	if (strncmp(s->method, "wait_", 5) == 0) {
		if (request_read(c, q, s->method) < 0)
			return fail_request(c, &q->e);
		status = format_columns(s->columns, jval_get(q->result, s->member), cli_as_json(c));
		return !status && jval_bool(jval_get(q->result, "timedOut"), false) ? EXIT_TIME_LIMIT : status;
	}
	jw_arr(&w);
	if (list_pages(c, s->method, s->member, &q->params, collect_element, &w, &e) < 0)
		return fail_request(c, &e);
	jw_arr_end(&w);
	if (noun_first_given(c, "quiet"))
		return format_ids(s->columns, jval_of(all.data, all.len));
	return format_columns(s->columns, jval_of(all.data, all.len), cli_as_json(c));
}

/* Whether a specification's token for options, or for an argument that an option replaces, names this one. */
static bool spec_names(const char *spec, bool options, const char *name)
{
	struct mapping m;

	while ((spec = next_mapping(spec, options, &m)))
		for (const char *at = options ? m.source : m.otherwise; *at; at += strspn(at, "|&")) {
			size_t n = strcspn(at, "|&");

			if (strlen(name) == n && strncmp(at, name, n) == 0)
				return true;
			at += n;
		}
	return false;
}

static bool takes_option(const char *options, const char *args, const char *name)
{
	return strcmp(name, "json") == 0 || strcmp(name, "quiet") == 0 || spec_names(options, true, name) ||
	       spec_names(args, false, name);
}

bool noun_takes_option(const struct subverb *s, const char *name) { return takes_option(s->options, s->args, name); }

/* The subverbs of a noun share its options; one that this subverb has no use for must not be ignored. */
static int check_options(struct cli *c, const char *subverb, const char *options, const char *args)
{
	for (size_t i = 0; i < c->opts.ngiven; i++) {
		const char *name = option_rows[c->opts.given[i].option].name;

		if (!takes_option(options, args, name))
			return cli_usage(c, "%s does not take --%s", subverb, name);
	}
	return 0;
}

int noun_check_options(struct cli *c, const char *subverb, const char *names)
{
	return check_options(c, subverb, names, "");
}

const char *noun_first_given(const struct cli *c, const char *names)
{
	for (size_t i = 0; i < c->opts.ngiven; i++)
		if (spec_names(names, true, option_rows[c->opts.given[i].option].name))
			return option_rows[c->opts.given[i].option].name;
	return NULL;
}

/* The daemon is needed before the arguments are complete: shortened ids are looked up in its lists. */
static int run_subverb(struct cli *c, const struct subverb *s)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	if (!(s->flags & SUB_OFFLINE) &&
	    cli_connect(c, s->flags & SUB_STARTS ? CLI_START_ALWAYS : CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	if (s->run)
		return s->run(c);
	if (s->flags & SUB_LISTED) {
		buf_auto struct buf element = BUF_INIT;
		struct mapping m;

		next_mapping(s->args, false, &m);
		if (id_lookup_element(c, (enum id_kind)id_kind_of(m.kind, strlen(m.kind)), c->opts.args[1], &element) <
		    0)
			return EXIT_FAILED;
		return format_record(jval_of(element.data, element.len), cli_as_json(c));
	}
	if ((status = write_arguments(c, s, &q.w)) || (status = noun_options(c, s->options, &q.w)))
		return status;
	if (s->columns)
		return run_list(c, s, &q);
	if (!(s->flags & SUB_READS))
		return noun_change(c, &q, s->method, s->member);
	return request_read(c, &q, s->method) < 0 ? fail_request(c, &q.e) : print_result(c, q.result, s->member);
}

static int wrong_count(struct cli *c, const struct subverb *s, size_t given)
{
	const char *space = s->name[0] ? " " : "";
	size_t wanted = given > s->most ? s->most : s->least;

	if (!s->most)
		return cli_usage(c, "%s%stakes no arguments", s->name, space);
	return cli_usage(c, "%s%stakes %s%zu argument%s", s->name, space,
			 s->most == s->least ? ""
			 : given > s->most   ? "at most "
					     : "at least ",
			 wanted, wanted == 1 ? "" : "s");
}

/* Without a subverb, the names of all are printed. */
int noun_run(struct cli *c)
{
	buf_auto struct buf names = BUF_INIT;

	for (size_t i = 0; i < c->verbs->nsubverbs; i++) {
		const struct subverb *s = &c->verbs->subverbs[i];
		size_t given = c->opts.nargs - (s->name[0] && c->opts.nargs ? 1 : 0);

		if (strcmp(s->noun, c->verb->key) != 0)
			continue;
		/* Collected on the way, for the message at the end. */
		buf_printf(&names, "%s%s", names.len ? ", " : "", s->name);
		if (s->name[0] && (!c->opts.nargs || strcmp(s->name, c->opts.args[0]) != 0))
			continue;
		if (given < s->least || given > s->most)
			return wrong_count(c, s, given);
		int status = check_options(c, s->name[0] ? s->name : c->verb->name, s->options, s->args);
		return status ? status : run_subverb(c, s);
	}
	return c->opts.nargs == 0 ? cli_usage(c, "missing verb: %s", buf_cstr(&names))
				  : cli_usage(c, "unknown verb '%s'", c->opts.args[0]);
}
