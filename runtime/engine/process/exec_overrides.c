/*
 * A command line is evaluated by the programs that it names. Variables such as PATH, LD_PRELOAD or BASH_ENV decide
 * which code a name stands for, so a request that sets one is not the command that its text suggests. The decision gets
 * the variables that can have an effect, and the approver sees those that policy/exec_vars.def lists, with their
 * values.
 */

#include "runtime/engine/process/exec_overrides.h"

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "sandbox/plan.h"

#include <string.h>

/* Of each value in the prompt of an approver. */
#define VALUE_SHOWN 1024u

/* Directories where an earlier command can have placed programs. Private directories of a sandbox start empty, but /tmp
 * and its like are included regardless. */
static const char **writable_folders(const struct sandbox_setup *f, size_t *ret_count)
{
	const char **list = mem_zalloc(f->profile.count + 5, sizeof *list);
	size_t n = 0;

	if (!f->profile.confined)
		list[n++] = "/";
	for (size_t i = 0; i < f->profile.count; i++)
		if (f->profile.entry[i].kind == PLAN_MOUNT_WRITE)
			list[n++] = f->profile.entry[i].path;
	list[n++] = "/tmp";
	list[n++] = "/var/tmp";
	list[n++] = "/dev/shm";
	if (f->workspace.path[0])
		list[n++] = f->workspace.path;
	*ret_count = n;
	return list;
}

static bool affects_programs(const char *variable)
{
	const char *equals = strchr(variable, '=');
	mem_auto char *name = equals ? mem_strndup(variable, (size_t)(equals - variable)) : NULL;

	return name && command_variable_matters(name, equals + 1);
}

void exec_overrides_make(struct engine *engine, unsigned uid, const struct start_request *r,
			 const struct sandbox_setup *f, struct exec_overrides *ret)
{
	buf_auto struct buf base = BUF_INIT;

	*ret = (struct exec_overrides){ .evaluated = mem_zalloc(r->nenv_set + 1, sizeof *ret->evaluated),
					.shown = mem_zalloc(r->nenv_set + 1, sizeof *ret->shown) };
	ret->writable = writable_folders(f, &ret->nwritable);
	if (r->nenv_set)
		engine->o.ports->base_env(engine->o.host, uid, &base);
	for (size_t i = 0; i < r->nenv_set; i++) {
		const char *v = r->env_set[i];

		if (buf_has_text(&base, v) || /* commands have it anyway */
		    (strncmp(v, "PATH=", 5) == 0 && command_path_is_fixed(v + 5, ret->writable, ret->nwritable)))
			continue;
		ret->evaluated[ret->nevaluated++] = v;
		if (affects_programs(v))
			ret->shown[ret->nshown++] = v;
	}
}

void exec_overrides_done(struct exec_overrides *e)
{
	free(e->evaluated);
	free(e->shown);
	free(e->writable);
	*e = (struct exec_overrides){ 0 };
}

void exec_overrides_text(const struct exec_overrides *e, struct buf *out)
{
	for (size_t i = 0; i < e->nshown; i++) {
		const char *v = e->shown[i];
		const size_t name = strcspn(v, "=") + 1;

		buf_printf(out, "%s%.*s", i ? " " : "", (int)name, v);
		const char *const value[] = { v + name };
		command_display(value, 1, VALUE_SHOWN, out);
	}
}
