/*
 * Evaluates the trials: one row per layer of a sandbox. A row is `enforced` only if a trial proved it: the layer itself
 * denied something; its configuration is not sufficient.
 */

#include "supervisor/cli/doctor.h"

#include "runtime/base/mem.h"

#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SANDBOX_PIDS 8 /* processes of a sandbox with one command */

struct evidence {
	const struct doctor *d;
	struct jval machine, health;
	struct jval inside; /* result of DOCTOR_SANDBOX */
};

static void row_enforced(struct doctor_row *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The layer was seen to work; the text says how. */
static void row_enforced(struct doctor_row *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->seen, sizeof r->seen, fmt, ap);
	va_end(ap);
	r->state = DOCTOR_ENFORCED;
}

static void row_missing(struct doctor_row *r, const char *fix, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void row_missing(struct doctor_row *r, const char *fix, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->cause, sizeof r->cause, fmt, ap);
	va_end(ap);
	snprintf(r->fix, sizeof r->fix, "%s", fix ? fix : "");
	r->state = DOCTOR_UNAVAILABLE;
}

/* An error's name, or "none" for success; "": not tried. */
static const char *text_of(struct jval from, const char *path, char ret[64])
{
	jval_str(jval_path(from, path), ret, 64);
	return ret;
}

static bool is_text(struct jval from, const char *path, const char *text)
{
	return jval_is_str(jval_path(from, path), text);
}

static struct jval find_feature(const struct evidence *s, const char *name)
{
	for (struct jiter it = jiter_on(jval_get(s->machine, "features")); jiter_next(&it);)
		if (is_text(it.value, "name", name))
			return it.value;
	return (struct jval){ 0 };
}

/* According to bailiffd's own attempt. */
static void missing_feature(struct jval kernel, struct doctor_row *r, const char *result)
{
	char detail[192], fix[320];

	jval_str(jval_get(kernel, "detail"), detail, sizeof detail);
	jval_str(jval_get(kernel, "fix"), fix, sizeof fix);
	row_missing(r, fix, "%s: %s", detail, result);
}

/* According to the daemon. */
static bool lacks_layer(const struct evidence *s, const char *name)
{
	for (struct jiter it = jiter_on(jval_get(s->d->trials[DOCTOR_SANDBOX].answer.result, "missingLayers"));
	     jiter_next(&it);)
		if (jval_is_str(it.value, name))
			return true;
	return false;
}

static const char report[] = "this is a fault of bailiff: report it with the output of bailiff doctor --json";

/* Fixes by the stage that failed, for failures without advice. */
static const struct {
	const char *stage, *fix;
} build_fixes[] = {
	{ "mounts", "the container blocks mounts: run it with --security-opt seccomp=unconfined --security-opt "
		    "apparmor=unconfined" },
	{ "root", "the container blocks mounts: run it with --security-opt seccomp=unconfined --security-opt "
		  "apparmor=unconfined" },
	{ "seccomp", "use a kernel with CONFIG_SECCOMP_FILTER, and a container profile that permits the call seccomp" },
	{ "", "start the daemon with bailiffd --foreground --verbose to see more" },
};

/* The advice comes first: it is about the reason of the failure. */
static const char *fix_for(const struct doctor_trial *t)
{
	if (t->failure.code == ERR_PERMISSION)
		return "the policy does not allow the command that inspects the sandbox: allow bailiff-tool inspect "
		       "in it, and try again";
	if (t->failure.reason == REASON_POLICY_INVALID)
		return "correct the file; bailiff policy lint FILE checks it";
	if (t->advice[0])
		return t->advice;
	if (t->failure.code == ERR_EXHAUSTED)
		return "free what the cause names or raise its limit, and try again";
	for (size_t i = 0; i < countof(build_fixes); i++)
		if (!build_fixes[i].stage[0] || strcmp(t->stage, build_fixes[i].stage) == 0)
			return build_fixes[i].fix;
	return "";
}

/*
 * A start that fails without user namespaces has cause and fix in one message; bailiffd's own attempt has them apart.
 */
static bool missing_userns(struct jval kernel, const struct err *failure, struct doctor_row *r)
{
	char cause[192], fix[320];

	if (failure->reason != REASON_NO_USER_NAMESPACES || !is_text(kernel, "state", "unavailable"))
		return false;
	jval_str(jval_get(kernel, "detail"), cause, sizeof cause);
	jval_str(jval_get(kernel, "fix"), fix, sizeof fix);
	row_missing(r, fix, "%s", cause);
	return true;
}

/* Everything depends on this one: without a sandbox the other rows have nothing to look at. */
static void judge_sandbox(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *t = &s->d->trials[DOCTOR_SANDBOX];
	char profile[64];

	if (is_text(t->answer.result, "sandboxProfile", "host"))
		row_missing(r, "change the policy's mode: bailiff policy shows where it comes from",
			    "policy runs commands without a sandbox (profile host)");
	else if (s->inside.type == JT_OBJECT)
		row_enforced(r, "a command ran in profile %s, as uid %llu",
			     text_of(t->answer.result, "sandboxProfile", profile),
			     (unsigned long long)jval_uint(jval_path(s->inside, "privileges.uid"), 0));
	else if (!missing_userns(find_feature(s, "user_namespaces"), &t->failure, r))
		row_missing(r, fix_for(t), "%s", t->failure.message);
}

/* Compares the namespace links of this process and of the command: different namespaces have different links. */
static bool has_own(const struct evidence *s, const char *name)
{
	char path[32], link[64], seen[64];

	snprintf(path, sizeof path, "/proc/self/ns/%s", name);
	ssize_t n = readlink(path, link, sizeof link - 1);
	link[n > 0 ? n : 0] = 0;
	jval_str(jval_get(jval_get(s->inside, "namespaces"), name), seen, sizeof seen);
	return n > 0 && seen[0] && strcmp(link, seen) != 0;
}

static bool sees_proc(const struct evidence *s) { return jval_bool(jval_path(s->inside, "processes.proc"), false); }

static const char masked_proc[] =
	"run the container with an unmasked /proc (docker run --security-opt systempaths=unconfined)";

/* If no sandbox could be built without them, bailiffd's own attempt has the reason. */
static void judge_user_namespaces(const struct evidence *s, struct doctor_row *r)
{
	struct jval kernel = find_feature(s, "user_namespaces");

	if (has_own(s, "user"))
		row_enforced(r, "the sandbox has its own user namespace");
	else if (s->inside.type != JT_OBJECT && is_text(kernel, "state", "unavailable"))
		missing_feature(kernel, r, "no sandbox can be built without root");
	else if (s->inside.type != JT_OBJECT)
		row_missing(r, NULL, "not tried: no sandbox was built");
	else if (!sees_proc(s))
		row_missing(r, masked_proc,
			    "cannot be seen: /proc is empty inside, because the container masks parts of it");
	else if (jval_bool(jval_get(s->health, "privileged"), false)) {
		snprintf(r->seen, sizeof r->seen,
			 "the daemon has root, and commands run under an id without privileges");
		r->state = DOCTOR_NOT_NEEDED;
	} else
		row_missing(r, report, "the sandbox is in the host's user namespace");
}

/* If /proc is empty inside, only the pid namespace can be proved: by the small pid of the command. */
static void judge_namespaces(const struct evidence *s, struct doctor_row *r)
{
	static const char *const names[] = { "pid", "mnt", "net", "ipc", "uts", "cgroup" };
	char shared[64] = "";

	for (size_t i = 0; i < countof(names); i++)
		if (!has_own(s, names[i]))
			snprintf(shared + strlen(shared), sizeof shared - strlen(shared), "%s%s", shared[0] ? ", " : "",
				 names[i]);
	if (!sees_proc(s) && jval_uint(jval_path(s->inside, "processes.pid"), UINT64_MAX) <= SANDBOX_PIDS)
		row_enforced(r, "its own pid namespace; /proc is empty inside, so the others cannot be compared");
	else if (shared[0])
		row_missing(r, report, "shared with the host: %s", shared);
	else
		row_enforced(r, "its own pid, mount, network, ipc, uts and cgroup namespaces");
}

/* The error must be EROFS: any other means that something else than the read-only mount prevented it. */
static void judge_root(const struct evidence *s, struct doctor_row *r)
{
	char error[64];

	text_of(s->inside, "root.mkdir", error);
	if (strcmp(error, "EROFS") == 0 && jval_bool(jval_path(s->inside, "root.readOnly"), false))
		row_enforced(r, "creating a folder in / failed with EROFS, and /usr is read-only");
	else
		row_missing(r, report, "creating a folder in / gave %s, expected EROFS", error);
}

/* The host's home is recognised by device and inode: a folder with the same name may be a private one. */
static void judge_home(const struct evidence *s, struct doctor_row *r)
{
	const struct passwd *pw = getpwuid(getuid());
	const char *home = pw && pw->pw_dir ? pw->pw_dir : "";
	struct jval seen = jval_get(s->inside, "home");
	struct stat st;

	if (!home[0] || strcmp(home, "/") == 0 || stat(home, &st) < 0) {
		snprintf(r->seen, sizeof r->seen, "this user has no home folder");
		r->state = DOCTOR_NOT_NEEDED;
	} else if (!is_text(seen, "stat", "none"))
		row_enforced(r, "%s is not there", home);
	else if (jval_uint(jval_get(seen, "device"), 0) == st.st_dev &&
		 jval_uint(jval_get(seen, "inode"), 0) == st.st_ino)
		row_missing(r, report, "%s is the host's own", home);
	else
		row_enforced(r, "%s is a private folder with %llu entries", home,
			     (unsigned long long)jval_uint(jval_get(seen, "entries"), 0));
}

static void judge_processes(const struct evidence *s, struct doctor_row *r)
{
	uint64_t visible = jval_uint(jval_path(s->inside, "processes.visible"), UINT64_MAX);

	if (!sees_proc(s) && visible == 0)
		row_enforced(r, "/proc is empty");
	else if (has_own(s, "pid") && visible <= SANDBOX_PIDS)
		row_enforced(r, "%llu processes are visible, all of the sandbox", (unsigned long long)visible);
	else
		row_missing(r, report, "%llu processes are visible", (unsigned long long)visible);
}

/* Both must be true: no interface other than loopback, and a connection that fails. */
static void judge_network(const struct evidence *s, struct doctor_row *r)
{
	char error[64], other[64] = "";

	text_of(s->inside, "network.connect", error);
	for (struct jiter it = jiter_on(jval_path(s->inside, "network.interfaces")); jiter_next(&it);)
		if (!jval_is_str(it.value, "lo"))
			jval_str(it.value, other, sizeof other);
	if (other[0] || strcmp(error, "none") == 0)
		row_missing(r, report, "an address outside gave %s, and there is the interface %s", error,
			    other[0] ? other : "lo only");
	else
		row_enforced(r, "only loopback; an address outside gave %s", error);
}

static const char mounts_only[] = "only the read-only mounts prevent writing";

/*
 * The kernel does not report a process's Landlock domain, but how many can be added tells: one less for each that
 * exists. If possible, a denial is tested as well: a FIFO on a read-only mount can be opened for writing as far as the
 * mount is concerned (ENXIO: no reader), and only Landlock returns EACCES.
 */
static void judge_landlock(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *count = &s->d->trials[DOCTOR_LANDLOCK];
	struct jval kernel = find_feature(s, "landlock");
	bool available = is_text(kernel, "state", "available") && s->d->domains_outside;
	bool in_domain = is_text(count->seen, "restrict", "E2BIG") &&
			 jval_uint(jval_get(count->seen, "domains"), UINT64_MAX) < s->d->domains_outside;
	char error[64], fifo[64], detail[64];

	text_of(kernel, "detail", detail);
	text_of(count->seen, "restrict", error);
	text_of(s->d->trials[DOCTOR_FIFO].seen, "open", fifo);
	r->required = available &&
		      !lacks_layer(s, "landlock"); /* if the daemon reports it as missing, profiles can require it */
	if (in_domain && (!fifo[0] || strcmp(fifo, "EACCES") == 0))
		row_enforced(r, "commands are in a domain of their own%s (%s)",
			     fifo[0] ? "; writing outside of the workspace failed with EACCES" : "", detail);
	else if (in_domain)
		row_missing(r, report,
			    "commands are in a domain of their own (%s), but writing outside of the workspace gave %s",
			    detail, fifo);
	else if (count->failure.message[0])
		row_missing(r, count->advice, "not tried: %s", count->failure.message);
	else if (!available)
		missing_feature(kernel, r, mounts_only);
	else if (!r->required)
		row_missing(r, "allow landlock_* in the seccomp profile of the daemon's container",
			    "the daemon's container blocks Landlock (%s): %s", error, mounts_only);
	else
		row_missing(r, report, "the kernel has it (%s), but commands are in no domain of their own", detail);
}

/* Two calls that only the filter denies. keyctl is ENOSYS where the kernel lacks it. */
static void judge_seccomp(const struct evidence *s, struct doctor_row *r)
{
	char keyctl[64], bit[64];

	text_of(s->inside, "filter.keyctl", keyctl);
	text_of(s->inside, "filter.setuidBit", bit);
	if (strcmp(bit, "EPERM") == 0 && (strcmp(keyctl, "EPERM") == 0 || strcmp(keyctl, "ENOSYS") == 0))
		row_enforced(r, "keyctl failed with %s, setting a setuid bit with %s", keyctl, bit);
	else
		row_missing(r, report, "keyctl gave %s, setting a setuid bit %s", keyctl, bit);
}

/* All five sets: an empty effective set proves nothing if another can fill it again. */
static void judge_capabilities(const struct evidence *s, struct doctor_row *r)
{
	static const char *const sets[] = { "permitted", "effective", "inheritable", "bounding", "ambient" };
	struct jval p = jval_get(s->inside, "privileges");
	char value[64];

	for (size_t i = 0; i < countof(sets); i++) {
		if (strcmp(text_of(p, sets[i], value), "0") != 0 || !is_text(p, "capget", "none")) {
			row_missing(r, report, "the %s set is %s", sets[i], value[0] ? value : "unknown");
			return;
		}
	}
	row_enforced(r, "all five sets are empty, as uid %llu", (unsigned long long)jval_uint(jval_get(p, "uid"), 0));
}

static void judge_no_new_privs(const struct evidence *s, struct doctor_row *r)
{
	if (jval_bool(jval_path(s->inside, "privileges.noNewPrivs"), false))
		row_enforced(r, "set: setuid programs gain nothing");
	else
		row_missing(r, report, "not set");
}

/* A file made inside must belong to the user outside, or the user could not delete it. */
static void judge_workspace(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor *d = s->d;
	unsigned long long inside = (unsigned long long)jval_uint(jval_path(s->inside, "workspace.uid"), UINT64_MAX);
	char error[64];

	text_of(s->inside, "workspace.create", error);
	if (d->not_here.message[0])
		row_missing(
			r, d->not_here_advice[0] ? d->not_here_advice : "change to a folder of a project and try again",
			"not in %s: %s", d->wanted, d->not_here.message);
	else if (strcmp(error, "none") != 0)
		row_missing(r, "change to a folder that you may write to", "creating a file in %s gave %s", d->wanted,
			    error);
	else if (d->owner != geteuid())
		row_missing(r, report, "a file made inside belongs to uid %lld outside", (long long)d->owner);
	else
		row_enforced(r, "a file made below %s by uid %llu belongs to uid %u outside", d->wanted, inside,
			     (unsigned)geteuid());
}

/* The daemon knows why it lacks a controller; other problems with a limit are in the trial's message, with the fix. */
static void missing_limit(const struct evidence *s, const char *controller, const struct doctor_trial *t,
			  struct doctor_row *r)
{
	char why[320], fix[320];

	for (struct jiter it = jiter_on(jval_path(s->health, "limits.controllers")); jiter_next(&it);) {
		if (!is_text(it.value, "name", controller) || !is_text(it.value, "state", "unavailable"))
			continue;
		jval_str(jval_get(it.value, "why"), why, sizeof why);
		jval_str(jval_get(it.value, "fix"), fix, sizeof fix);
		row_missing(r, fix, "%s", why);
		return;
	}
	bool rejected = t->answer.error.type != JT_NONE && t->failure.code != ERR_SANDBOX;
	row_missing(r,
		    t->advice[0] ? t->advice
		    : rejected   ? "do what the cause says"
				 : report,
		    "%s", t->failure.message);
}

/* The command must die: a result means that it could use more than its limit. */
static void judge_memory(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *t = &s->d->trials[DOCTOR_MEMORY];

	if (t->seen.type == JT_OBJECT)
		row_missing(r, report, "a command with %u MiB wrote to %u MiB", DOCTOR_MEMORY_LIMIT >> 20,
			    DOCTOR_MEMORY_TRIED >> 20);
	else if (is_text(t->answer.result, "signal", "KILL"))
		row_enforced(r, "a command with %u MiB was ended when it used more", DOCTOR_MEMORY_LIMIT >> 20);
	else
		missing_limit(s, "memory", t, r);
}

/* Either fork fails at the limit, or the kernel ends the command. */
static void judge_pids(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *t = &s->d->trials[DOCTOR_PIDS];
	unsigned long long forked = (unsigned long long)jval_uint(jval_get(t->seen, "forked"), 0);
	char error[64];

	text_of(t->seen, "fork", error);
	if (t->seen.type == JT_OBJECT && strcmp(error, "EAGAIN") == 0 && forked < DOCTOR_PIDS_LIMIT)
		row_enforced(r, "a command with %u processes could fork %llu times", DOCTOR_PIDS_LIMIT, forked);
	else if (is_text(t->answer.result, "signal", "KILL"))
		row_enforced(r, "a command with %u processes was ended when it started more", DOCTOR_PIDS_LIMIT);
	else if (t->seen.type == JT_OBJECT)
		row_missing(r, report, "a command with %u processes could fork %llu times", DOCTOR_PIDS_LIMIT, forked);
	else
		missing_limit(s, "pids", t, r);
}

/* Half of the time is far above the limit of a tenth, and robust on a loaded machine. */
static void judge_cpu(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *t = &s->d->trials[DOCTOR_CPU];
	unsigned long long wall = (unsigned long long)jval_uint(jval_get(t->seen, "wallMs"), 0);
	unsigned long long cpu = (unsigned long long)jval_uint(jval_get(t->seen, "cpuMs"), UINT32_MAX);

	if (t->seen.type != JT_OBJECT)
		missing_limit(s, "cpu", t, r);
	else if (cpu * 2 > wall)
		row_missing(r, report, "a command with a tenth of a processor had %llu of %llu ms", cpu, wall);
	else
		row_enforced(r, "a command with a tenth of a processor had %llu of %llu ms", cpu, wall);
}

static void judge_terminal(const struct evidence *s, struct doctor_row *r)
{
	const struct doctor_trial *t = &s->d->trials[DOCTOR_TERMINAL];
	char name[64];

	if (jval_bool(jval_get(t->seen, "terminal"), false))
		row_enforced(r, "%s, %llu by %llu", text_of(t->seen, "name", name),
			     (unsigned long long)jval_uint(jval_get(t->seen, "cols"), 0),
			     (unsigned long long)jval_uint(jval_get(t->seen, "rows"), 0));
	else if (t->failure.message[0])
		row_missing(r, t->advice, "not tried: %s", t->failure.message);
	else
		row_missing(r, report, "standard input is not a terminal");
}

/* Not a layer of the sandbox, but whether its denials can be reported exactly. */
static void judge_denials(const struct evidence *s, struct doctor_row *r)
{
	struct jval v = jval_get(s->health, "violations");
	char state[64], why[256], fix[256], source[64];

	text_of(v, "state", state);
	text_of(v, "source", source);
	jval_str(jval_get(v, "why"), why, sizeof why);
	jval_str(jval_get(v, "fix"), fix, sizeof fix);
	if (strcmp(state, "unavailable") != 0)
		row_enforced(r, "reported exactly, from %s", source[0] ? source : "the kernel");
	else
		row_missing(r, fix[0] ? fix : "run the daemon as root, or see docs/violations.md",
			    "only names are exact, the rest is guessed from the output: %s", why);
}

static const struct {
	const char *layer;
	bool required;
	bool inside; /* depends on the result of DOCTOR_SANDBOX */
	void (*judge)(const struct evidence *s, struct doctor_row *r);
} layers[] = {
	{ "sandbox", true, false, judge_sandbox },
	{ "user_namespaces", false, false, judge_user_namespaces },
	{ "namespaces", true, true, judge_namespaces },
	{ "root_filesystem", true, true, judge_root },
	{ "home", true, true, judge_home },
	{ "processes", true, true, judge_processes },
	{ "network", true, true, judge_network },
	{ "landlock", false, true, judge_landlock },
	{ "seccomp", true, true, judge_seccomp },
	{ "capabilities", true, true, judge_capabilities },
	{ "no_new_privs", true, true, judge_no_new_privs },
	{ "workspace", false, true, judge_workspace },
	{ "memory_limit", false, true, judge_memory },
	{ "pids_limit", false, true, judge_pids },
	{ "cpu_limit", false, true, judge_cpu },
	{ "terminal", false, true, judge_terminal },
	{ "denials", false, false, judge_denials },
};
_Static_assert(countof(layers) <= DOCTOR_ROWS_MAX, "DOCTOR_ROWS_MAX is too small");

const char *doctor_state_name(enum doctor_state state)
{
	static const char *const names[] = {
		[DOCTOR_ENFORCED] = "enforced", [DOCTOR_UNAVAILABLE] = "unavailable", [DOCTOR_NOT_NEEDED] = "not needed"
	};
	return names[state];
}

/* A command that runs without a sandbox by policy has nothing inside to evaluate. */
size_t doctor_judge(const struct doctor *d, struct jval machine, struct jval health,
		    struct doctor_row ret[DOCTOR_ROWS_MAX])
{
	const struct doctor_trial *first = &d->trials[DOCTOR_SANDBOX];
	const bool confined = !is_text(first->answer.result, "sandboxProfile", "host");
	const struct evidence s = {
		.d = d, .machine = machine, .health = health, .inside = confined ? first->seen : (struct jval){ 0 }
	};

	for (size_t i = 0; i < countof(layers); i++) {
		ret[i] = (struct doctor_row){ .layer = layers[i].layer, .required = layers[i].required };
		if (layers[i].inside && s.inside.type != JT_OBJECT)
			row_missing(&ret[i], NULL, "not tried: no sandbox was built");
		else
			layers[i].judge(&s, &ret[i]);
	}
	return countof(layers);
}
