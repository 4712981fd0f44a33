#include "sandbox/plan.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"

#include <string.h>

#define KNOWN_FLAGS ((uint32_t)(PLAN_KEEP_TREE | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE))
#define KNOWN_LAYERS                                                                                     \
	((uint32_t)(PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_LANDLOCK | PLAN_LAYER_SECCOMP | \
		    PLAN_LAYER_CAPABILITIES | PLAN_LAYER_CGROUP))

bool plan_key_valid(const struct plan_key *k)
{
	size_t n = strnlen(k->id, sizeof k->id);
	if (n == 0 || n == sizeof k->id || k->reserved)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = k->id[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
		if (!ok)
			return false;
	}
	for (size_t i = n; i < sizeof k->id; i++) {
		if (k->id[i])
			return false;
	}
	return true;
}

/* Strings go behind the offset tables; the cursor walks over where they land. */
static uint32_t put_string(struct buf *out, size_t base, const char *s)
{
	uint32_t off = (uint32_t)(out->len - base);
	buf_append(out, s, strlen(s) + 1);
	return off;
}

static void put_strings(struct buf *out, size_t base, uint32_t table_off, const char *const *strv, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t off = put_string(out, base, strv[i]);
		memcpy(out->data + base + table_off + i * sizeof off, &off, sizeof off);
	}
}

static int spec_check(const struct plan_spec *spec, size_t *ret_total, struct err *e)
{
	if (spec->argc == 0)
		return err_field(e, "command", "is empty");
	if (spec->argc > PLAN_ARGS_MAX)
		return err_field(e, "command", "has more than %u arguments", PLAN_ARGS_MAX);
	if (spec->envc > PLAN_ARGS_MAX)
		return err_field(e, "env", "has more than %u variables", PLAN_ARGS_MAX);
	if (!spec->argv[0][0])
		return err_field(e, "command", "has an empty name");
	if (!spec->cwd || spec->cwd[0] != '/')
		return err_field(e, "cwd", "must be an absolute path");

	size_t total = sizeof(struct plan_head) + (spec->argc + spec->envc) * sizeof(uint32_t) + strlen(spec->cwd) + 1;
	for (size_t i = 0; i < spec->argc; i++)
		total += strlen(spec->argv[i]) + 1;
	for (size_t i = 0; i < spec->envc; i++) {
		if (!strchr(spec->envv[i], '=') || spec->envv[i][0] == '=')
			return err_field(e, "env", "has a variable without a name");
		total += strlen(spec->envv[i]) + 1;
	}
	if (total > PLAN_MAX)
		return err_field(e, "command", "arguments and environment together are larger than %u bytes", PLAN_MAX);
	*ret_total = total;
	return 0;
}

int plan_build(const struct plan_spec *spec, struct buf *out, struct err *e)
{
	size_t total = 0;
	if (spec_check(spec, &total, e) < 0)
		return -1;

	size_t base = out->len;
	struct plan_head h = {
		.magic = PLAN_MAGIC,
		.version = PLAN_VERSION,
		.total_len = (uint32_t)total,
		.flags = spec->flags,
		.layers = spec->layers,
		.require = spec->require,
		.argc = (uint32_t)spec->argc,
		.envc = (uint32_t)spec->envc,
		.argv_off = sizeof h,
		.envv_off = (uint32_t)(sizeof h + spec->argc * sizeof(uint32_t)),
		.cpu_ms = spec->cpu_ms,
		.open_files = spec->open_files,
		.file_bytes = spec->file_bytes,
	};
	h.cwd_off = (uint32_t)(h.envv_off + spec->envc * sizeof(uint32_t));
	buf_append(out, &h, sizeof h);
	memset(buf_reserve(out, h.cwd_off - sizeof h), 0, h.cwd_off - sizeof h);
	out->len += h.cwd_off - sizeof h;
	put_string(out, base, spec->cwd);
	put_strings(out, base, h.argv_off, spec->argv, spec->argc);
	put_strings(out, base, h.envv_off, spec->envv, spec->envc);
	return 0;
}

/* A NUL-terminated string that lies wholly inside the plan, behind the head. */
static bool string_ok(const char *plan, size_t len, uint32_t off)
{
	return off >= sizeof(struct plan_head) && off < len && memchr(plan + off, 0, len - off);
}

static bool table_ok(size_t len, uint32_t off, uint32_t count)
{
	return off >= sizeof(struct plan_head) && off % sizeof(uint32_t) == 0 && off <= len &&
	       count <= (len - off) / sizeof(uint32_t);
}

static int strings_check(const char *plan, size_t len, uint32_t table_off, uint32_t count, const char *what, struct err *e)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t off;
		memcpy(&off, plan + table_off + i * sizeof off, sizeof off);
		if (!string_ok(plan, len, off))
			return err_field(e, what, "string %u lies outside the plan", i);
	}
	return 0;
}

int plan_check(const void *plan, size_t len, struct err *e)
{
	const struct plan_head *h = plan;
	if (len < sizeof *h || len > PLAN_MAX)
		return err_field(e, "plan", "has %zu bytes", len);
	if (h->magic != PLAN_MAGIC || h->version != PLAN_VERSION)
		return err_field(e, "plan", "is not a plan of version %u", PLAN_VERSION);
	if (h->total_len != len)
		return err_field(e, "plan", "says %u bytes but has %zu", h->total_len, len);
	if (h->flags & ~KNOWN_FLAGS || h->reserved)
		return err_field(e, "flags", "has unknown bits");
	if (h->layers & ~KNOWN_LAYERS || h->require & ~h->layers)
		return err_field(e, "layers", "has unknown bits");
	if (h->argc == 0 || h->argc > PLAN_ARGS_MAX || !table_ok(len, h->argv_off, h->argc))
		return err_field(e, "argv", "has a bad count or place");
	if (h->envc > PLAN_ARGS_MAX || !table_ok(len, h->envv_off, h->envc))
		return err_field(e, "envv", "has a bad count or place");
	if (!string_ok(plan, len, h->cwd_off) || ((const char *)plan)[h->cwd_off] != '/')
		return err_field(e, "cwd", "is not an absolute path inside the plan");
	if (strings_check(plan, len, h->argv_off, h->argc, "argv", e) < 0 ||
	    strings_check(plan, len, h->envv_off, h->envc, "envv", e) < 0)
		return -1;
	if (!plan_arg(h, 0)[0])
		return err_field(e, "argv", "has an empty name");
	for (uint32_t i = 0; i < h->envc; i++) {
		if (!strchr(plan_env(h, i), '='))
			return err_field(e, "envv", "variable %u has no '='", i);
	}
	return 0;
}

const char *plan_string(const struct plan_head *p, uint32_t off)
{
	return (const char *)p + off;
}

static const char *table_string(const struct plan_head *p, uint32_t table_off, uint32_t i)
{
	uint32_t off;
	memcpy(&off, (const char *)p + table_off + i * sizeof off, sizeof off);
	return plan_string(p, off);
}

const char *plan_arg(const struct plan_head *p, uint32_t i)
{
	return table_string(p, p->argv_off, i);
}

const char *plan_env(const struct plan_head *p, uint32_t i)
{
	return table_string(p, p->envv_off, i);
}
