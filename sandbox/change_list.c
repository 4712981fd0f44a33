#include "sandbox/change_list.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <string.h>

struct record {
	uint32_t size; /* with what follows, a multiple of 8 */
	uint8_t kind, type, outcome, reserved;
	uint32_t mode, old_mode;
	uint64_t bytes;
	uint32_t path_len, note_len, diff_len, reserved2;
};

#define NAME(group, name, text) [CHANGE_##group##_##name] = text,
const char *change_op_name(enum change_op op)
{
	static const char *const names[] = { CHANGE_OPS(NAME) };
	return names[op];
}

const char *change_kind_name(enum change_kind kind)
{
	static const char *const names[] = { CHANGE_KINDS(NAME) };
	return names[kind];
}

const char *change_type_name(enum change_type type)
{
	static const char *const names[] = { CHANGE_TYPES(NAME) };
	return names[type];
}

const char *change_outcome_name(enum change_outcome outcome)
{
	static const char *const names[] = { CHANGE_OUTCOMES(NAME) };
	return names[outcome];
}

/* ---- writing ---- */

static struct change_list_head *head_of(struct buf *out) { return (struct change_list_head *)(void *)out->data; }

void change_list_begin(struct buf *out)
{
	const struct change_list_head h = { .magic = CHANGE_LIST_MAGIC, .version = CHANGE_LIST_VERSION };
	buf_reset(out);
	buf_append(out, &h, sizeof h);
}

void change_list_add(struct buf *out, const struct change *c)
{
	static const char zeros[8];
	struct change_list_head *h = head_of(out);
	h->kinds[c->kind]++;
	h->outcomes[c->outcome]++;
	size_t note_len = c->note_len < CHANGE_NOTE_MAX ? c->note_len : CHANGE_NOTE_MAX;
	size_t plain = sizeof(struct record) + c->path_len + note_len;
	size_t diff_len = out->len + plain + c->diff_len + 8 <= CHANGE_LIST_BYTES_MAX / 4 * 3 ? c->diff_len : 0;
	size_t size = (plain + diff_len + 7) / 8 * 8;
	if (h->count >= CHANGE_LIST_RECORDS_MAX || c->path_len > CHANGE_PATH_MAX ||
	    out->len + size > CHANGE_LIST_BYTES_MAX)
		return;
	h->count++;
	const struct record r = {
		.size = (uint32_t)size,
		.kind = (uint8_t)c->kind,
		.type = (uint8_t)c->type,
		.outcome = (uint8_t)c->outcome,
		.mode = c->mode,
		.old_mode = c->old_mode,
		.bytes = c->bytes,
		.path_len = (uint32_t)c->path_len,
		.note_len = (uint32_t)note_len,
		.diff_len = (uint32_t)diff_len,
	};
	buf_append(out, &r, sizeof r);
	buf_append(out, c->path, c->path_len);
	buf_append(out, c->note, note_len);
	buf_append(out, c->diff, diff_len);
	buf_append(out, zeros, size - plain - diff_len);
}

void change_list_end(struct buf *out) { head_of(out)->total_len = (uint32_t)out->len; }

void change_list_set_undo(struct buf *out, const struct change_list_undo *undo) { head_of(out)->undo = *undo; }

/* ---- reading ---- */

static int check_record(const char *list, size_t len, size_t at, struct record *r, struct err *e)
{
	if (len - at < sizeof *r)
		return err_set(e, ERR_CORRUPT, "a list of changes ends within a record");
	memcpy(r, list + at, sizeof *r);
	if (r->kind >= CHANGE_KIND_COUNT || r->type >= CHANGE_TYPE_COUNT || r->outcome >= CHANGE_OUTCOME_COUNT)
		return err_set(e, ERR_CORRUPT, "a change of an unknown kind");
	if (r->path_len == 0 || r->path_len > CHANGE_PATH_MAX || r->note_len > CHANGE_NOTE_MAX ||
	    r->diff_len > CHANGE_LIST_BYTES_MAX)
		return err_set(e, ERR_CORRUPT, "a change with too long a text");
	size_t size = (sizeof *r + r->path_len + r->note_len + r->diff_len + 7) / 8 * 8;
	if (r->size != size || len - at < size)
		return err_set(e, ERR_CORRUPT, "a change whose length is wrong");
	const char *path = list + at + sizeof *r;
	if (path[0] != '/' || memchr(path, 0, r->path_len))
		return err_set(e, ERR_CORRUPT, "a change with an invalid path");
	return 0;
}

int change_list_check(const void *list, size_t len, struct err *e)
{
	struct change_list_head h;
	struct record r;
	size_t at = sizeof h;
	if (len < sizeof h || len > CHANGE_LIST_BYTES_MAX)
		return err_set(e, ERR_CORRUPT, "a list of changes of %zu bytes", len);
	memcpy(&h, list, sizeof h);
	if (h.magic != CHANGE_LIST_MAGIC || h.version != CHANGE_LIST_VERSION || h.total_len != len ||
	    h.count > CHANGE_LIST_RECORDS_MAX)
		return err_set(e, ERR_CORRUPT, "not a list of changes");
	for (uint32_t i = 0; i < h.count; i++) {
		if (check_record(list, len, at, &r, e) < 0)
			return -1;
		at += r.size;
	}
	if (at != len)
		return err_set(e, ERR_CORRUPT, "a list of changes with something behind it");
	return 0;
}

bool change_list_next(const void *list, size_t *at, struct change *ret)
{
	struct change_list_head h;
	struct record r;
	memcpy(&h, list, sizeof h);
	if (*at == 0)
		*at = sizeof h;
	if (*at >= h.total_len)
		return false;
	memcpy(&r, (const char *)list + *at, sizeof r);
	const char *text = (const char *)list + *at + sizeof r;
	*ret = (struct change){
		.kind = r.kind,
		.type = r.type,
		.outcome = r.outcome,
		.mode = r.mode,
		.old_mode = r.old_mode,
		.bytes = r.bytes,
		.path = text,
		.path_len = r.path_len,
		.note = text + r.path_len,
		.note_len = r.note_len,
		.diff = text + r.path_len + r.note_len,
		.diff_len = r.diff_len,
	};
	*at += r.size;
	return true;
}

/* ---- a choice of paths ---- */

/* True if `inner` is `outer` or below it. */
static bool lies_in(const char *inner, size_t inner_len, const char *outer, size_t outer_len)
{
	while (outer_len > 1 && outer[outer_len - 1] == '/')
		outer_len--;
	if (outer_len == 1)
		return true;
	return inner_len >= outer_len && memcmp(inner, outer, outer_len) == 0 &&
	       (inner_len == outer_len || inner[outer_len] == '/');
}

bool change_list_selects(const char *paths, size_t len, const char *path, size_t path_len)
{
	for (size_t at = 0; at < len;) {
		size_t n = strnlen(paths + at, len - at);
		if (n && lies_in(path, path_len, paths + at, n))
			return true;
		at += n + 1;
	}
	return len == 0;
}

bool change_list_names(const char *paths, size_t len, const char *path, size_t path_len)
{
	for (size_t at = 0, n; at < len; at += n + 1) {
		n = strnlen(paths + at, len - at);
		if (n == path_len && memcmp(paths + at, path, n) == 0)
			return true;
	}
	return false;
}

bool change_list_leads_to(const char *paths, size_t len, const char *path, size_t path_len)
{
	for (size_t at = 0; at < len;) {
		size_t n = strnlen(paths + at, len - at);
		if (n && lies_in(paths + at, n, path, path_len))
			return true;
		at += n + 1;
	}
	return len == 0 || change_list_selects(paths, len, path, path_len);
}
