/*
 * Requests come from clients, so every list is limited before memory is allocated for it, and every error names the
 * field by its JSON path. Nothing is resolved here: paths are only checked to be absolute (or below ~), and whether
 * they exist, belong to a workspace or may be opened at all is decided when the sandbox is set up. The same JSON
 * therefore gives the same request when a stored start is read again.
 *
 * A member that is not given stays at its zero value, and the profile or the daemon's default applies. The limits are
 * the exception: they are filled in here, so that the process has the values that its facts record.
 */

#include "runtime/engine/process/start_spec.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#include <limits.h>
#include <string.h>

#define ARGUMENTS_MAX 32768u
#define ENVIRONMENT_MAX 4096u
#define JUSTIFICATION_MAX 4096u
#define HOSTS_MAX 256u

/* ---- the sandbox ---- */

static int take_paths(const json_t *sandbox, const char *key, const char ***ret, size_t *ret_n, struct err *e)
{
	const json_t *list = json_object_get(sandbox, key);
	size_t n = json_array_size(list);
	char field[ERR_FIELD_MAX];

	if (n > PLAN_MOUNTS_MAX) {
		snprintf(field, sizeof field, "sandbox.%s", key);
		return err_field(e, field, "must have at most %u paths", PLAN_MOUNTS_MAX);
	}
	*ret = mem_zalloc(n + 1, sizeof **ret);
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		const char *path = json_string_value(json_array_get(list, i));

		if (!path || (path[0] != '/' && path[0] != '~') || strlen(path) >= PATH_MAX) {
			snprintf(field, sizeof field, "sandbox.%s[%zu]", key, i);
			return err_field(e, field, "expected an absolute path, or one that starts with ~/");
		}
		(*ret)[i] = path;
	}
	return 0;
}

static int take_hosts(const json_t *sandbox, const char ***ret, size_t *ret_n, struct err *e)
{
	const json_t *list = json_object_get(sandbox, "allowHosts");
	size_t n = json_array_size(list);

	if (n > HOSTS_MAX)
		return err_field(e, "sandbox.allowHosts", "must have at most %u hosts", HOSTS_MAX);
	*ret = mem_zalloc(n + 1, sizeof **ret);
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		(*ret)[i] = json_string_value(json_array_get(list, i));
		if (!(*ret)[i])
			return err_field(e, "sandbox.allowHosts", "must be an array of hosts");
	}
	return 0;
}

static int take_tmp_bytes(const json_t *sandbox, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(sandbox, "tmpBytes");

	if (v && json_integer_value(v) < 1)
		return err_field(e, "sandbox.tmpBytes", "must be 1 or more");
	*ret = v ? (uint64_t)json_integer_value(v) : 0;
	return 0;
}

/* 0 means "not given": the profile's limit applies. */
static int take_tree_limits(const json_t *limits, struct plan_limits *ret, struct err *e)
{
	for (int i = 0; i < PLAN_LIMITS; i++) {
		const json_t *v = json_object_get(limits, plan_limit_info[i].key);
		uint64_t value = v ? plan_limit_scale((enum plan_limit)i, json_number_value(v)) : 0;
		char field[ERR_FIELD_MAX], room[64];
		const char *why = v ? plan_limit_refusal((enum plan_limit)i, value, room) : NULL;

		if (why) {
			snprintf(field, sizeof field, "limits.%s", plan_limit_info[i].key);
			return err_field(e, field, "%s", why);
		}
		ret->value[i] = value;
	}
	return 0;
}

int sandbox_spec_of(const json_t *json, struct sandbox_spec *ret, struct err *e)
{
	const json_t *sandbox = json_object_get(json, "sandbox"), *limits = json_object_get(json, "limits");
	struct sandbox_spec s = { .request = {
					  .profile = json_get_string(json, "profile"),
					  .cwd = json_get_string(json, "cwd"),
					  .workspace = json_get_string(sandbox, "workspace"),
					  .change = { .network = json_get_string(sandbox, "network"),
						      .cow = json_is_true(json_object_get(json, "cow")) },
				  } };
	struct profile_change *change = &s.request.change;

	if (take_paths(sandbox, "readRoots", &s.read, &change->nread, e) < 0 ||
	    take_paths(sandbox, "writeRoots", &s.write, &change->nwrite, e) < 0 ||
	    take_paths(sandbox, "hidden", &s.hide, &change->nhide, e) < 0 ||
	    take_hosts(sandbox, &s.hosts, &change->nhosts, e) < 0 ||
	    take_tmp_bytes(sandbox, &change->tmp_bytes, e) < 0 || take_tree_limits(limits, &change->limits, e) < 0) {
		sandbox_spec_done(&s);
		return -1;
	}
	change->read = s.read;
	change->write = s.write;
	change->hide = s.hide;
	change->hosts = s.hosts;
	*ret = s;
	return 0;
}

void sandbox_spec_done(struct sandbox_spec *s)
{
	free(s->read);
	free(s->write);
	free(s->hide);
	free(s->hosts);
}

/* ---- the command ---- */

static int take_command(const json_t *json, struct start_spec *s, struct err *e)
{
	const json_t *command = json_object_get(json, "command"), *v;
	const char *line = json_get_string(json, "commandLine");
	struct start_request *r = &s->request;
	size_t i;

	/* Exactly one of the two. */
	if (!command == !line)
		return err_field(e, command ? "commandLine" : "command", "%s",
				 command ? "give command or commandLine, not both"
					 : "missing; give command (an array) or commandLine");
	if (line) {
		if (!*line)
			return err_field(e, "commandLine", "must not be empty");
		r->command_line = line;
		return 0;
	}
	r->argc = json_array_size(command);
	if (r->argc < 1 || r->argc > ARGUMENTS_MAX)
		return err_field(e, "command", "must have 1 to %u elements", ARGUMENTS_MAX);
	s->argv = mem_zalloc(r->argc + 1, sizeof(*s->argv));
	json_array_foreach (command, i, v) {
		s->argv[i] = json_string_value(v);
		if (!s->argv[i])
			return err_field(e, "command", "must be an array of strings");
	}
	if (!*s->argv[0])
		return err_field(e, "command[0]", "must not be empty");
	r->argv = s->argv;
	return 0;
}

/*
 * A gateway whose protocol has file methods starts bailiff-tool directly: `fs OPERATION FLAGS PATH [PATH]`. The program
 * is then visible in the sandbox wherever it is installed, and the rules about files apply. `inspect SUBJECT ARGUMENT`,
 * which collects information for `bailiff doctor`, is an ordinary command for the rules.
 */
static void take_own_program(const struct engine *engine, struct start_spec *s)
{
	static const char *const reading[] = { "read", "stat", "realpath", "list", "walk" };
	const char *own = engine_tool_program(engine);
	struct start_request *r = &s->request;

	if (!own || r->argc < 4 || r->argc > 6 || strcmp(r->argv[0], own) != 0)
		return;
	bool inspects = strcmp(r->argv[1], "inspect") == 0;
	if (!inspects && (r->argc < 5 || strcmp(r->argv[1], "fs") != 0))
		return;
	s->sandbox.request.own_program = own;
	if (inspects)
		return;
	/* Unknown operations are evaluated as writes, which the rules restrict more. */
	r->tool = "write_file";
	for (size_t i = 0; i < countof(reading); i++)
		if (strcmp(r->argv[2], reading[i]) == 0)
			r->tool = "read_file";
	r->tool_paths = r->argv + 4;
	r->ntool_paths = r->argc - 4;
}

static int take_environment(const json_t *json, struct start_spec *s, struct err *e)
{
	json_t *env = json_object_get(json, "env"), *v;
	struct start_request *r = &s->request;
	const char *name;

	if (!env)
		return 0;
	if (json_object_size(env) > ENVIRONMENT_MAX)
		return err_field(e, "env", "must have at most %u variables", ENVIRONMENT_MAX);
	s->env_set = mem_zalloc(json_object_size(env) + 1, sizeof(*s->env_set));
	s->env_unset = mem_zalloc(json_object_size(env) + 1, sizeof(*s->env_unset));
	json_object_foreach (env, name, v) {
		if (json_is_null(v))
			s->env_unset[s->nunset++] = name;
		else if (json_is_string(v))
			s->env_set[s->nset++] = mem_printf("%s=%s", name, json_string_value(v));
		else
			return err_field(e, "env", "'%.64s' must be a string, or null to remove it", name);
	}
	r->env_set = s->env_set;
	r->nenv_set = s->nset;
	r->env_unset = s->env_unset;
	r->nenv_unset = s->nunset;
	return 0;
}

static int take_limits(const struct engine *engine, const json_t *json, struct process_limits *ret, struct err *e)
{
	static const struct {
		const char *name;
		size_t offset;
	} rows[] = {
		{ "wallMs", offsetof(struct process_limits, wall_ms) },
		{ "idleMs", offsetof(struct process_limits, idle_ms) },
		{ "cpuMs", offsetof(struct process_limits, cpu_ms) },
		{ "openFiles", offsetof(struct process_limits, open_files) },
		{ "fileBytes", offsetof(struct process_limits, file_bytes) },
		{ "outputBytes", offsetof(struct process_limits, output_bytes) },
	};

	engine_default_limits(engine, ret);
	for (size_t i = 0; i < countof(rows); i++) {
		const json_t *v = json_object_get(json_object_get(json, "limits"), rows[i].name);
		char field[ERR_FIELD_MAX];

		if (!v)
			continue;
		if (json_integer_value(v) < 1) {
			(void)snprintf(field, sizeof(field), "limits.%s", rows[i].name);
			return err_field(e, field, "must be 1 or more");
		}
		*(uint64_t *)((char *)ret + rows[i].offset) = (uint64_t)json_integer_value(v);
	}
	return 0;
}

int terminal_dimension_of(const json_t *v, const char *field, uint32_t *ret, struct err *e)
{
	json_int_t n = json_integer_value(v);

	if (n < 1 || n > (json_int_t)PLAN_TTY_DIMENSION_MAX)
		return err_field(e, field, "must be 1 to %u", PLAN_TTY_DIMENSION_MAX);
	*ret = (uint32_t)n;
	return 0;
}

static int take_tty(const json_t *json, struct start_request *r, struct err *e)
{
	const json_t *tty = json_object_get(json, "tty");

	if (!tty)
		return 0;
	if (json_get_string(json, "stderr") && !r->stderr_merge)
		return err_field(e, "stderr", "a terminal has only one output: leave it out, or use no tty");
	if (terminal_dimension_of(json_object_get(tty, "rows"), "tty.rows", &r->tty_rows, e) < 0)
		return -1;
	return terminal_dimension_of(json_object_get(tty, "cols"), "tty.cols", &r->tty_cols, e);
}

int port_publications_of(const json_t *list, struct port_publication ret[START_PUBLISH_MAX], struct err *e)
{
	size_t n = json_array_size(list);

	if (n > START_PUBLISH_MAX)
		return err_field(e, "publish", "must have at most %u ports", START_PUBLISH_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *one = json_array_get(list, i);
		json_int_t port = json_integer_value(json_object_get(one, "port")),
			   host = json_integer_value(json_object_get(one, "hostPort"));
		const json_t *address = json_object_get(one, "hostAddress");

		if (!json_is_object(one) || port < 1 || port > UINT16_MAX || host < 0 || host > UINT16_MAX ||
		    (address && !json_is_string(address)))
			return err_field(
				e, "publish",
				"must be an array of objects {port, hostAddress, hostPort}, as for publish_port");
		ret[i] = (struct port_publication){ .address = address ? json_string_value(address) : "127.0.0.1",
						    .host_port = (uint16_t)host,
						    .port = (uint16_t)port };
	}
	return (int)n;
}

static int take_publish(const json_t *json, struct start_spec *s, struct err *e)
{
	const json_t *list = json_object_get(json, "publish");
	int n;

	if (!json_array_size(list))
		return 0;
	s->publish = mem_zalloc(START_PUBLISH_MAX, sizeof *s->publish);
	if ((n = port_publications_of(list, s->publish, e)) < 0)
		return -1;
	s->request.publish = s->publish;
	s->request.npublish = (size_t)n;
	return 0;
}

int start_spec_of(const struct engine *engine, const json_t *json, struct start_spec *ret, struct err *e)
{
	struct start_spec s = { .request = {
					.stdin_pipe = json_text_is(json, "stdin", "pipe"),
					.stderr_merge = json_text_is(json, "stderr", "merge"),
					.keep_tree = json_is_true(json_object_get(json, "keepTree")),
					.end_tree = json_is_false(json_object_get(json, "keepTree")),
					.end_with_client = json_text_is(json, "onDisconnect", "terminate"),
					.sandbox_id = json_text_is(json, "sandboxId", SANDBOX_OWN)
							      ? NULL
							      : json_get_string(json, "sandboxId"),
					.session_id = json_get_string(json, "sessionId"),
					.thread_id = json_get_string(json, "threadId"),
					.turn_id = json_get_string(json, "turnId"),
					.task_id = json_get_string(json, "taskId"),
					.tool_call_id = json_get_string(json, "toolCallId"),
					.justification = json_get_string(json, "justification"),
				} };
	int r = take_command(json, &s, e);

	if (r == 0)
		r = take_tty(json, &s.request, e);
	if (r == 0)
		r = take_environment(json, &s, e);
	if (r == 0 && s.request.justification && strlen(s.request.justification) > JUSTIFICATION_MAX)
		r = err_field(e, "justification", "must have at most %u bytes", JUSTIFICATION_MAX);
	if (r == 0)
		r = sandbox_spec_of(json, &s.sandbox, e);
	if (r == 0)
		r = take_publish(json, &s, e);
	if (r == 0)
		r = take_limits(engine, json, &s.request.limits, e);
	if (r < 0) {
		start_spec_done(&s);
		return -1;
	}
	/* Last: it depends on the parsed command. */
	take_own_program(engine, &s);
	s.request.sandbox = s.sandbox.request;
	*ret = s;
	return 0;
}

void start_spec_done(struct start_spec *s)
{
	for (size_t i = 0; i < s->nset; i++)
		free((void *)(uintptr_t)s->env_set[i]);
	free(s->argv);
	free(s->env_set);
	free(s->env_unset);
	free(s->publish);
	sandbox_spec_done(&s->sandbox);
}
