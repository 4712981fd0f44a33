/*
 * `doctor`: prints what the trials found, for people or as JSON. Both have the same contents.
 *
 * A layer is tried, not assumed from the kernel's version: doctor_trial.c runs small commands in real sandboxes,
 * doctor_rows.c compares what they saw with what each layer promises, and this file prints it. The exit status is 0
 * only if every required layer is enforced, so that a script can check a machine.
 */

#include "runtime/base/build.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/doctor.h"
#include "supervisor/cli/format.h"
#include "supervisor/client/daemon_program.h"
#include "supervisor/client/home_candidates.h"

#include <unistd.h>

struct findings {
	struct buf about; /* the daemon that answers, as JSON */
	struct jval health;
	struct jval machine; /* output of bailiffd --version --json; JT_NONE: not available */
	struct doctor_row rows[DOCTOR_ROWS_MAX];
	size_t nrows;
	bool safe;
};

/* ---- no daemon ---- */

/* Without a daemon nothing could be tried. Prints which sockets were, and what to do. */
static int show_no_daemon(struct cli *c, const struct err *e, struct jval machine)
{
	struct home places[HOME_CANDIDATES_MAX];
	size_t n = home_candidates(getuid(), places);
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	cli_error("doctor: %s", e->message);
	for (size_t i = 0; i < n; i++)
		cli_hint("checked %s (%s; %s)", places[i].socket, places[i].kind,
			 home_has_store(&places[i]) ? "has a store" : "no store yet");
	cli_hint("to see why, start one with bailiffd --foreground");
	if (!opts_has(&c->opts, OPT_doctor_JSON))
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kbool(&w, "safe", false);
	jw_kstr(&w, "error", e->message);
	if (machine.type == JT_OBJECT)
		jw_kraw(&w, "machine", machine.text, machine.len);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	format_out(&out);
	return EXIT_FAILED;
}

/* ---- findings ---- */

/* The daemon that answers, and this client: a difference of versions explains many problems. */
static void write_about(struct cli *c, struct jval hello, struct buf *out)
{
	struct jw w = jw_on(out);
	struct jval version = jval_get(hello, "serverVersion"), role = jval_get(hello, "role");

	jw_obj(&w);
	jw_kstr(&w, "kind", remote_kind(c->remote));
	jw_kstr(&w, "socket", remote_socket_path(c->remote));
	if (version.type == JT_STRING)
		jw_kraw(&w, "version", version.text, version.len);
	if (role.type == JT_STRING)
		jw_kraw(&w, "role", role.text, role.len);
	jw_kuint(&w, "uid", getuid());
	jw_kstr(&w, "clientVersion", BAILIFF_VERSION);
	jw_obj_end(&w);
}

/* The same findings for programs. Empty texts are left out, as everywhere in JSON. */
static void write_json(const struct findings *f, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kbool(&w, "safe", f->safe);
	jw_karr(&w, "layers");
	for (size_t i = 0; i < f->nrows; i++) {
		const struct doctor_row *r = &f->rows[i];

		jw_obj(&w);
		jw_kstr(&w, "layer", r->layer);
		jw_kstr(&w, "state", doctor_state_name(r->state));
		jw_kbool(&w, "required", r->required);
		jw_kopt(&w, "seen", r->seen[0] ? r->seen : NULL);
		jw_kopt(&w, "cause", r->cause[0] ? r->cause : NULL);
		jw_kopt(&w, "fix", r->fix[0] ? r->fix : NULL);
		jw_obj_end(&w);
	}
	jw_arr_end(&w);
	jw_kraw(&w, "daemon", f->about.data, f->about.len);
	jw_kraw(&w, "health", f->health.text, f->health.len);
	if (f->machine.type == JT_OBJECT)
		jw_kraw(&w, "machine", f->machine.text, f->machine.len);
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

/* In full: the last column of the table is cut at the edge of the terminal. */
static void show_fix(const char *before, const char *text, struct buf *out)
{
	buf_auto struct buf json = BUF_INIT;
	struct jw w = jw_on(&json);

	jw_str(&w, text);
	buf_str(out, before);
	format_scalar(jval_of(json.data, json.len), out);
	buf_byte(out, '\n');
}

static void show_layers(const struct findings *f, struct buf *out)
{
	static const char *const heads[] = { "LAYER", "STATE", "SEEN FROM INSIDE" };
	struct format_table t;

	format_table_init(&t, heads, countof(heads));
	for (size_t i = 0; i < f->nrows; i++) {
		const struct doctor_row *r = &f->rows[i];
		bool missing = r->state == DOCTOR_UNAVAILABLE;

		format_table_cell(&t, FORMAT_PLAIN, r->layer);
		format_table_cell(&t,
				  missing && r->required        ? FORMAT_RED
				  : missing                     ? FORMAT_YELLOW
				  : r->state == DOCTOR_ENFORCED ? FORMAT_GREEN
								: FORMAT_DIM,
				  doctor_state_name(r->state));
		format_table_cell(&t, FORMAT_DIM, missing ? r->cause : r->seen);
	}
	format_table_finish(&t, out);
	for (size_t i = 0; i < f->nrows; i++) {
		const struct doctor_row *r = &f->rows[i];

		if (r->state != DOCTOR_UNAVAILABLE || !r->fix[0])
			continue;
		buf_printf(out, "\n%s", r->layer);
		show_fix(": ", r->cause, out);
		show_fix("  fix: ", r->fix, out);
	}
}

static void show_text(const struct findings *f, struct buf *out)
{
	buf_str(out, "daemon:\n");
	format_json(jval_of(f->about.data, f->about.len), 2, out);
	buf_str(out, "health:\n");
	format_json(f->health, 2, out);
	buf_byte(out, '\n');
	if (f->machine.type == JT_OBJECT) {
		build_text("bailiffd", f->machine, out);
		buf_byte(out, '\n');
	}
	show_layers(f, out);
	buf_str(out, f->safe ? "\nCommands run in a sandbox whose layers were tested.\n"
			     : "\nA required layer is not enforced: commands cannot run safely here.\n");
}

/* Runs the trials, and evaluates them. Commands are safe here if every required layer is enforced. */
static void examine_host(struct cli *c, struct findings *f)
{
	mem_auto char *tool = jval_strdup(jval_get(f->health, "toolProgram"));
	struct doctor d;

	doctor_try(c, tool, &d);
	f->nrows = doctor_judge(&d, f->machine, f->health, f->rows);
	f->safe = true;
	for (size_t i = 0; i < f->nrows; i++)
		f->safe &= !f->rows[i].required || f->rows[i].state != DOCTOR_UNAVAILABLE;
	doctor_done(&d);
}

int cmd_doctor(struct cli *c)
{
	request_auto struct request hello = REQUEST_INIT(hello), health = REQUEST_INIT(health);
	struct remote_options o = { .start = true }; /* only a daemon that has tried knows what this machine enforces */
	buf_auto struct buf out = BUF_INIT, machine = BUF_INIT;
	struct findings f = { 0 };
	struct err e = ERR_INIT;

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument '%s'", c->opts.args[0]);
	/* Before the daemon is contacted: it is what can still be said if none answers. */
	if (daemon_program_describe(&machine, NULL) == 0)
		f.machine = jval_of(machine.data, machine.len);
	if (remote_open(&o, &c->remote, &e) < 0)
		return show_no_daemon(c, &e, f.machine);
	jw_kbool(&hello.w, "interactive", false); /* commands that policy would ask about are rejected immediately */
	if (request_read(c, &hello, "initialize") < 0)
		return cli_fail(c, EXIT_FAILED, &hello.e, "doctor");
	if (request_read(c, &health, "get_health") < 0)
		return cli_fail(c, EXIT_FAILED, &health.e, "doctor");
	f.health = health.result;
	write_about(c, hello.result, &f.about);
	examine_host(c, &f);
	if (cli_as_json(c))
		write_json(&f, &out);
	else
		show_text(&f, &out);
	buf_done(&f.about);
	return format_out(&out) || !f.safe ? EXIT_FAILED : 0;
}
