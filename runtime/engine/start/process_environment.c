#include "runtime/engine/start/process_environment.h"

#include "runtime/base/mem.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/process/process.h"

#include <string.h>

void process_environment_done(struct process_environment *v)
{
	buf_done(&v->text);
	free(v->vars);
}

static bool same_name(const char *var, const char *name, size_t n)
{
	return strncmp(var, name, n) == 0 && var[n] == '=';
}

static void remove_variable(struct process_environment *v, const char *name, size_t n)
{
	for (size_t i = 0; i < v->count; i++)
		if (same_name(v->vars[i], name, n)) {
			v->vars[i] = v->vars[--v->count];
			return;
		}
}

/*
 * Does the home directory exist inside the sandbox? "/" does not count as one, and a sandbox without the system
 * mounts has only the paths that it names.
 */
static bool has_home(const struct profile *p, const char *home)
{
	bool seen = !p->confined;

	for (size_t i = 0; i < p->count; i++)
		seen |= p->entry[i].kind == PLAN_MOUNT_SYSTEM || strcmp(p->entry[i].path, home) == 0;
	return seen && (home[1] || !p->confined);
}

/*
 * The proxy's address under every variable name that common tools read. The sandbox's own loopback bypasses the
 * proxy, except for names that the profile maps to the host's.
 */
static void proxy_variables(const struct profile *p, struct buf *out)
{
	static const char *const names[] = { "HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
					     "https_proxy", "ALL_PROXY",  "all_proxy" };
	static const char *const without[] = { "NO_PROXY", "no_proxy" };
	static const char *const own[] = { "localhost", "127.0.0.1", "::1" };

	if (!p->confined || p->network != PLAN_NET_ALLOW)
		return;
	for (size_t i = 0; i < countof(names); i++) {
		buf_printf(out, "%s=http://127.0.0.1:%d", names[i], PLAN_PROXY_PORT);
		buf_byte(out, '\0');
	}
	for (size_t i = 0; i < countof(without); i++) {
		const char *comma = "";

		buf_printf(out, "%s=", without[i]);
		for (size_t k = 0; k < countof(own); k++)
			if (!host_rules_allow_literal(&p->hosts, own[k])) {
				buf_printf(out, "%s%s", comma, own[k]);
				comma = ",";
			}
		buf_byte(out, '\0');
	}
	buf_str(out, "NODE_USE_ENV_PROXY=1"); /* Node.js reads the other variables only with this one */
	buf_byte(out, '\0');
}

/* The project directory under the names that existing hooks use. */
static void hook_variables(const char *workspace, struct buf *out)
{
	static const char *const names[] = { "CLAUDE_PROJECT_DIR", "BAILIFF_PROJECT_DIR" };

	for (size_t i = 0; i < countof(names); i++) {
		buf_printf(out, "%s=%s", names[i], workspace);
		buf_byte(out, '\0');
	}
}

/* Takes ownership of f->env. */
void process_environment_build(struct process *p, const struct start_request *r, struct sandbox_setup *f,
			       struct process_environment *v)
{
	static const char links[] = "BAILIFF_FILE_LINKS=refuse";
	size_t count = 0, at = 0;

	v->text = f->env;
	f->env = BUF_INIT;
	buf_printf(&v->text, "PWD=%s", p->cwd);
	buf_byte(&v->text, '\0');
	if (process_has_tty(p))
		buf_append(&v->text, "TERM=xterm-256color", sizeof "TERM=xterm-256color");
	proxy_variables(&f->profile, &v->text);
	if (p->owner == OWNER_HOOK)
		hook_variables(f->workspace.path[0] ? f->workspace.path : p->cwd, &v->text);
	for (const char *s = v->text.data; s < v->text.data + v->text.len; s += strlen(s) + 1)
		count++;
	v->vars = mem_zalloc(count + r->nenv_set + 2, sizeof *v->vars);
	for (const char *s = v->text.data; at < count; s += strlen(s) + 1)
		v->vars[at++] = s;
	v->count = count;
	for (size_t i = 0; i < count; i++)
		if (same_name(v->vars[i], "HOME", 4) && !has_home(&f->profile, v->vars[i] + 5))
			v->vars[i] = "HOME=/tmp";
	/* The request has the last word about every variable that was set above. */
	for (size_t i = 0; i < r->nenv_unset; i++)
		remove_variable(v, r->env_unset[i], strlen(r->env_unset[i]));
	for (size_t i = 0; i < r->nenv_set; i++) {
		remove_variable(v, r->env_set[i], (size_t)(strchrnul(r->env_set[i], '=') - r->env_set[i]));
		v->vars[v->count++] = r->env_set[i];
	}
	if (p->refuses_links) {
		remove_variable(v, links, sizeof links - sizeof "=refuse");
		v->vars[v->count++] = links;
	}
}
