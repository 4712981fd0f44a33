#include "sandbox/plan.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KNOWN_FLAGS                                                                                                  \
	((uint32_t)(PLAN_KEEP_TREE | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE | PLAN_PRIVATE_ROOT | PLAN_COW | PLAN_TTY | \
		    PLAN_HOLDER | PLAN_MEMBER | PLAN_COW_COPY))
#define KNOWN_MOUNT_FLAGS                                                                              \
	((uint32_t)(PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_OWNED | PLAN_MOUNT_IN_PARENT | PLAN_MOUNT_EXACT | \
		    PLAN_MOUNT_NESTED))
#define KNOWN_LAYERS                                                                                       \
	((uint32_t)(PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS | PLAN_LAYER_LANDLOCK | PLAN_LAYER_SECCOMP | \
		    PLAN_LAYER_CAPABILITIES | PLAN_LAYER_CGROUP | PLAN_LAYER_ABSTRACT_SOCKETS))

const struct plan_limit_info plan_limit_info[PLAN_LIMITS] = {
#define PLAN_LIMIT(NAME, key, controller, unit, least, most, otherwise) \
	[PLAN_LIMIT_##NAME] = { key, PLAN_UNIT_##unit, least, most, otherwise },
#include "sandbox/plan_limits.def"
#undef PLAN_LIMIT
};

const char plan_limit_keys[] =
#define PLAN_LIMIT(NAME, key, controller, unit, least, most, otherwise) ", " key
#include "sandbox/plan_limits.def"
#undef PLAN_LIMIT
	;

/* As in JSON: "512", "1.5". */
static void limit_text(enum plan_limit l, uint64_t value, char out[32])
{
	if (plan_limit_info[l].unit != PLAN_UNIT_THOUSANDTHS)
		snprintf(out, 32, "%llu", (unsigned long long)value);
	else
		text_format_thousandths(value, out);
}

void plan_limits_write(const struct plan_limits *l, struct jw *w)
{
	char text[32];
	for (int i = 0; i < PLAN_LIMITS; i++) {
		if (!l->value[i] || l->value[i] == PLAN_UNLIMITED)
			continue;
		if (plan_limit_info[i].unit != PLAN_UNIT_THOUSANDTHS) {
			jw_kuint(w, plan_limit_info[i].key, l->value[i]);
			continue;
		}
		text_format_thousandths(l->value[i], text);
		jw_kraw(w, plan_limit_info[i].key, text, strlen(text));
	}
}

void plan_limits_add(struct plan_limits *l, const struct plan_limits *own)
{
	for (int i = 0; i < PLAN_LIMITS; i++)
		if (own->value[i])
			l->value[i] = own->value[i];
	l->required |= own->required;
}

uint64_t plan_limit_scale(enum plan_limit l, double number)
{
	double scaled = plan_limit_info[l].unit == PLAN_UNIT_THOUSANDTHS ? number * 1000 + 0.5 : number;

	return scaled < 1 ? 0 : scaled >= 0x1p63 ? PLAN_UNLIMITED : (uint64_t)scaled;
}

bool plan_limit_is_required(const struct plan_limits *l, enum plan_limit i)
{
	return l->value[i] && l->required & (1u << i | PLAN_LIMITS_ALL);
}

const char *plan_limit_refusal(enum plan_limit l, uint64_t value, char room[64])
{
	const struct plan_limit_info *row = &plan_limit_info[l];
	char bound[32];
	if (value >= row->least && value <= row->most)
		return NULL;
	limit_text(l, value < row->least ? row->least : row->most, bound);
	snprintf(room, 64, "must be at %s %s", value < row->least ? "least" : "most", bound);
	return room;
}

bool plan_key_valid(const struct plan_key *k)
{
	size_t n = strnlen(k->id, sizeof k->id);
	if (n == 0 || n == sizeof k->id || k->reserved)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = k->id[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
			  c == '-';
		if (!ok)
			return false;
	}
	for (size_t i = n; i < sizeof k->id; i++) {
		if (k->id[i])
			return false;
	}
	return true;
}

/* Strings follow the offset tables; the cursor tracks their positions. */
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

static void put_mounts(struct buf *out, size_t base, uint32_t table_off, const struct plan_spec *spec)
{
	for (size_t i = 0; i < spec->nmounts; i++) {
		struct plan_mount m = { .kind = spec->mounts[i].kind, .flags = spec->mounts[i].flags };
		m.path_off = put_string(out, base, spec->mounts[i].path);
		memcpy(out->data + base + table_off + i * sizeof m, &m, sizeof m);
	}
}

/* Absolute, without ., .. or //: a mount's path is exactly where it is. */
static bool path_ok(const char *path)
{
	const char *name = path + 1, *end;

	if (path[0] != '/')
		return false;
	if (!*name)
		return true;
	for (;; name = end + 1) {
		end = strchrnul(name, '/');
		const size_t n = (size_t)(end - name);
		if (n == 0 || (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.'))
			return false;
		if (!*end)
			return true;
	}
}

static int mounts_spec_check(const struct plan_spec *spec, size_t *total, struct err *e)
{
	if (spec->nmounts > PLAN_MOUNTS_MAX)
		return err_field(e, "sandbox", "has more than %u paths", PLAN_MOUNTS_MAX);
	for (size_t i = 0; i < spec->nmounts; i++) {
		if (!path_ok(spec->mounts[i].path))
			return err_field(e, "sandbox", "'%.200s' is not an absolute path without . and ..",
					 spec->mounts[i].path);
		*total += sizeof(struct plan_mount) + strlen(spec->mounts[i].path) + 1;
	}
	return 0;
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
	if (mounts_spec_check(spec, &total, e) < 0)
		return -1;
	if (total > PLAN_MAX)
		return err_field(e, "command", "arguments and environment together are larger than %u bytes", PLAN_MAX);
	*ret_total = total;
	return 0;
}

uint64_t plan_tasks(const struct plan_head *p)
{
	uint64_t pids = p->limits.value[PLAN_LIMIT_PIDS];

	return pids && pids != PLAN_UNLIMITED ? pids + 1 : pids;
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
		.mount_count = (uint32_t)spec->nmounts,
		.mounts_off = sizeof h,
		.argv_off = (uint32_t)(sizeof h + spec->nmounts * sizeof(struct plan_mount)),
		.network = spec->network,
		.tmp_bytes = spec->tmp_bytes,
		.limits = spec->limits,
		.cpu_ms = spec->cpu_ms,
		.open_files = spec->open_files,
		.file_bytes = spec->file_bytes,
		.tty_rows = spec->tty_rows,
		.tty_cols = spec->tty_cols,
	};
	h.envv_off = (uint32_t)(h.argv_off + spec->argc * sizeof(uint32_t));
	h.cwd_off = (uint32_t)(h.envv_off + spec->envc * sizeof(uint32_t));
	buf_append(out, &h, sizeof h);
	memset(buf_reserve(out, h.cwd_off - sizeof h), 0, h.cwd_off - sizeof h);
	out->len += h.cwd_off - sizeof h;
	put_string(out, base, spec->cwd);
	put_strings(out, base, h.argv_off, spec->argv, spec->argc);
	put_strings(out, base, h.envv_off, spec->envv, spec->envc);
	put_mounts(out, base, h.mounts_off, spec);
	return 0;
}

/* A NUL-terminated string that is completely inside the plan, after the head. */
static bool string_ok(const char *plan, size_t len, uint32_t off)
{
	return off >= sizeof(struct plan_head) && off < len && memchr(plan + off, 0, len - off);
}

static bool table_ok(size_t len, uint32_t off, uint32_t count, size_t row)
{
	return off >= sizeof(struct plan_head) && off % sizeof(uint32_t) == 0 && off <= len &&
	       count <= (len - off) / row;
}

static int strings_check(const char *plan, size_t len, uint32_t table_off, uint32_t count, const char *what,
			 struct err *e)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t off;
		memcpy(&off, plan + table_off + i * sizeof off, sizeof off);
		if (!string_ok(plan, len, off))
			return err_field(e, what, "string %u lies outside the plan", i);
	}
	return 0;
}

static int mounts_check(const struct plan_head *h, size_t len, struct err *e)
{
	if (h->mount_count > PLAN_MOUNTS_MAX ||
	    !table_ok(len, h->mounts_off, h->mount_count, sizeof(struct plan_mount)))
		return err_field(e, "mounts", "has a bad count or place");
	if (h->mount_count && !(h->flags & PLAN_PRIVATE_ROOT))
		return err_field(e, "mounts", "without a private root");
	for (uint32_t i = 0; i < h->mount_count; i++) {
		const struct plan_mount *m = plan_mount(h, i);
		if (m->kind < PLAN_MOUNT_SYSTEM || m->kind > PLAN_MOUNT_PROTECT || m->flags & ~KNOWN_MOUNT_FLAGS ||
		    m->reserved)
			return err_field(e, "mounts", "%u is of an unknown kind", i);
		if (!string_ok((const char *)h, len, m->path_off) || !path_ok(plan_string(h, m->path_off)))
			return err_field(e, "mounts", "%u is not an absolute path inside the plan", i);
	}
	return 0;
}

static int limits_check(const struct plan_limits *l, struct err *e)
{
	char room[64];
	for (int i = 0; i < PLAN_LIMITS; i++) {
		const char *why = l->value[i] ? plan_limit_refusal((enum plan_limit)i, l->value[i], room) : NULL;
		if (why)
			return err_field(e, plan_limit_info[i].key, "%s", why);
		if (l->required >> i & 1 && !l->value[i])
			return err_field(e, plan_limit_info[i].key, "is required but not set");
	}
	return l->required >> (PLAN_LIMITS + 1) ? err_field(e, "limits", "has unknown bits") : 0;
}

static int tty_check(const struct plan_head *h, struct err *e)
{
	bool sized = h->tty_rows && h->tty_cols && h->tty_rows <= PLAN_TTY_DIMENSION_MAX &&
		     h->tty_cols <= PLAN_TTY_DIMENSION_MAX;
	if (h->flags & PLAN_TTY ? !sized : h->tty_rows || h->tty_cols)
		return err_field(e, "tty", "has a bad size");
	if (h->flags & PLAN_TTY && h->flags & (PLAN_STDIN_PIPE | PLAN_STDERR_MERGE))
		return err_field(e, "tty", "together with pipes");
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
	if (h->flags & ~KNOWN_FLAGS || h->network > PLAN_NET_ALLOW)
		return err_field(e, "flags", "has unknown bits");
	if (h->flags & PLAN_HOLDER && (h->flags & (PLAN_MEMBER | PLAN_KEEP_TREE | PLAN_TTY | PLAN_STDIN_PIPE |
						   PLAN_PRIVATE_ROOT)) != (PLAN_STDIN_PIPE | PLAN_PRIVATE_ROOT))
		return err_field(e, "flags", "are not those of a holder");
	if (h->flags & PLAN_MEMBER && !(h->flags & PLAN_PRIVATE_ROOT))
		return err_field(e, "flags", "are not those of a member");
	if (h->flags & PLAN_COW_COPY && !(h->flags & PLAN_COW))
		return err_field(e, "flags", "name a copy for a run that is not copy-on-write");
	if (h->layers & ~KNOWN_LAYERS || h->require & ~h->layers)
		return err_field(e, "layers", "has unknown bits");
	if (h->argc == 0 || h->argc > PLAN_ARGS_MAX || !table_ok(len, h->argv_off, h->argc, sizeof(uint32_t)))
		return err_field(e, "argv", "has a bad count or place");
	if (h->envc > PLAN_ARGS_MAX || !table_ok(len, h->envv_off, h->envc, sizeof(uint32_t)))
		return err_field(e, "envv", "has a bad count or place");
	if (!string_ok(plan, len, h->cwd_off) || ((const char *)plan)[h->cwd_off] != '/')
		return err_field(e, "cwd", "is not an absolute path inside the plan");
	if (strings_check(plan, len, h->argv_off, h->argc, "argv", e) < 0 ||
	    strings_check(plan, len, h->envv_off, h->envc, "envv", e) < 0)
		return -1;
	if (mounts_check(h, len, e) < 0 || limits_check(&h->limits, e) < 0 || tty_check(h, e) < 0)
		return -1;
	if (!plan_arg(h, 0)[0])
		return err_field(e, "argv", "has an empty name");
	for (uint32_t i = 0; i < h->envc; i++) {
		if (!strchr(plan_env(h, i), '='))
			return err_field(e, "envv", "variable %u has no '='", i);
	}
	return 0;
}

const char *plan_string(const struct plan_head *p, uint32_t off) { return (const char *)p + off; }

static const char *table_string(const struct plan_head *p, uint32_t table_off, uint32_t i)
{
	uint32_t off;
	memcpy(&off, (const char *)p + table_off + i * sizeof off, sizeof off);
	return plan_string(p, off);
}

const struct plan_mount *plan_mount(const struct plan_head *p, uint32_t i)
{
	return (const struct plan_mount *)(const void *)((const char *)p + p->mounts_off) + i;
}

bool plan_path_inside(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	if (n == 1)
		return true;
	return strncmp(path, folder, n) == 0 && (!path[n] || path[n] == '/');
}

int plan_mount_below(const struct plan_head *p, uint32_t i)
{
	const char *path = plan_string(p, plan_mount(p, i)->path_off);
	for (uint32_t j = i; j-- > 0;) {
		const struct plan_mount *m = plan_mount(p, j);
		bool shuts = m->kind == PLAN_MOUNT_PROTECT; /* covers only itself, read-only */
		if (m->kind != PLAN_MOUNT_SYSTEM && !shuts && plan_path_inside(path, plan_string(p, m->path_off)))
			return (int)j;
	}
	return -1;
}

const char *plan_arg(const struct plan_head *p, uint32_t i) { return table_string(p, p->argv_off, i); }

const char *plan_env(const struct plan_head *p, uint32_t i) { return table_string(p, p->envv_off, i); }

const char *plan_home(const struct plan_head *p)
{
	for (uint32_t i = 0; i < p->envc; i++) {
		const char *home = plan_env(p, i);
		if (strncmp(home, "HOME=/", 6) == 0 && !strpbrk(home, ":\n"))
			return home + 5;
	}
	return "/";
}

static bool same_mounts(const struct plan_head *a, const struct plan_head *b)
{
	if (a->mount_count != b->mount_count)
		return false;
	for (uint32_t i = 0; i < a->mount_count; i++) {
		const struct plan_mount *x = plan_mount(a, i), *y = plan_mount(b, i);
		if (x->kind != y->kind || x->flags != y->flags ||
		    strcmp(plan_string(a, x->path_off), plan_string(b, y->path_off)) != 0)
			return false;
	}
	return true;
}

bool plan_fits_holder(const struct plan_head *holder, const struct plan_head *member)
{
	const uint32_t flags = PLAN_PRIVATE_ROOT | PLAN_COW;
	return (holder->flags & flags) == (member->flags & flags) && holder->layers == member->layers &&
	       holder->require == member->require && holder->network == member->network &&
	       holder->tmp_bytes == member->tmp_bytes &&
	       memcmp(&holder->limits, &member->limits, sizeof holder->limits) == 0 && same_mounts(holder, member);
}

bool plan_same_sandbox(const struct plan_head *a, const struct plan_head *b)
{
	return (a->flags & PLAN_TTY) == (b->flags & PLAN_TTY) && a->tty_rows == b->tty_rows &&
	       a->tty_cols == b->tty_cols && strcmp(plan_home(a), plan_home(b)) == 0 && plan_fits_holder(a, b);
}

/* For each mount of each start: printf would take most of the time of the hash. */
static void append_number(struct buf *b, uint32_t value)
{
	char text[12], *at = text + sizeof text;
	*--at = ' ';
	do
		*--at = (char)('0' + value % 10);
	while (value /= 10);
	buf_append(b, at, (size_t)(text + sizeof text - at));
}

/* Hashes what plan_fits_holder compares. */
void plan_sandbox_hash(const struct plan_head *p, char ret[PLAN_SANDBOX_HASH])
{
	buf_auto struct buf all = BUF_INIT;
	buf_reserve(&all, p->total_len);
	buf_printf(&all, "%u %u %u %u %u %" PRIu64, p->flags & (PLAN_PRIVATE_ROOT | PLAN_COW), p->layers, p->require,
		   p->network, p->mount_count, p->tmp_bytes);
	buf_append(&all, &p->limits, sizeof p->limits);
	for (uint32_t i = 0; i < p->mount_count; i++) {
		const struct plan_mount *m = plan_mount(p, i);
		const char *path = plan_string(p, m->path_off);
		append_number(&all, m->kind);
		append_number(&all, m->flags);
		buf_append(&all, path, strlen(path) + 1);
	}
	hash_sha256_text(all.data, all.len, ret);
}
