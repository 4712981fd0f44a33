#include "sandbox/autorun_report.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <limits.h>
#include <string.h>

#define PROGRAM_MAX 64u
#define MEMBERS_BYTES_MAX (24u << 10) /* of the list of files in JSON */

struct version {
	uint32_t type, mode, kept, len;
};

/* Followed by path, program and the two texts. */
struct record {
	uint32_t size; /* with what follows, a multiple of 8 */
	uint32_t path_len, program_len, reserved;
	struct version before, after;
};

const char *autorun_partial_name(unsigned bit)
{
#define NAME(NAME, word, text) [AUTORUN_PARTIAL_BIT_##NAME] = word,
	static const char *const names[] = { AUTORUN_PARTIALS(NAME) };
#undef NAME
	return bit < countof(names) ? names[bit] : NULL;
}

const char *autorun_record_change(const struct autorun_record *r)
{
	return r->before.type == AUTORUN_TYPE_NONE  ? "added"
	       : r->after.type == AUTORUN_TYPE_NONE ? "deleted"
						    : "modified";
}

/* ---- writing ---- */

void autorun_report_begin(struct buf *out)
{
	const struct autorun_head h = { .magic = AUTORUN_REPORT_MAGIC, .version = AUTORUN_REPORT_VERSION };
	buf_reset(out);
	buf_append(out, &h, sizeof h);
}

static struct version version_of(const struct autorun_version *v)
{
	return (struct version){ .type = v->type, .mode = v->mode, .kept = v->kept, .len = (uint32_t)v->len };
}

void autorun_report_add(struct buf *out, const struct autorun_record *r)
{
	static const char zeros[8];
	struct autorun_head *h = (struct autorun_head *)(void *)out->data;
	size_t plain = sizeof(struct record) + r->path_len + r->program_len + r->before.len + r->after.len;
	size_t size = (plain + 7) / 8 * 8;
	h->changed++;
	if (r->path_len >= PATH_MAX || r->program_len > PROGRAM_MAX || size > AUTORUN_REPORT_BYTES_MAX - out->len)
		return;
	h->count++;
	const struct record head = { .size = (uint32_t)size,
				     .path_len = (uint32_t)r->path_len,
				     .program_len = (uint32_t)r->program_len,
				     .before = version_of(&r->before),
				     .after = version_of(&r->after) };
	buf_append(out, &head, sizeof head);
	buf_append(out, r->path, r->path_len);
	buf_append(out, r->program, r->program_len);
	buf_append(out, r->before.text, r->before.len);
	buf_append(out, r->after.text, r->after.len);
	buf_append(out, zeros, size - plain);
}

void autorun_report_end(struct buf *out, uint32_t uid, uint32_t gid, uint32_t partial,
			const uint8_t key[AUTORUN_SEAL_BYTES])
{
	struct autorun_head *h = (struct autorun_head *)(void *)out->data;
	uint8_t seal[AUTORUN_SEAL_BYTES];
	h->total_len = (uint32_t)out->len;
	h->uid = uid;
	h->gid = gid;
	h->partial = partial;
	hash_hmac_sha256(key, AUTORUN_SEAL_BYTES, out->data, out->len, seal);
	memcpy(h->seal, seal, sizeof seal);
}

/* ---- reading ---- */

static bool version_valid(const struct version *v)
{
	bool nothing = v->type == AUTORUN_TYPE_NONE;
	return v->type < AUTORUN_TYPE_COUNT && v->mode <= 07777 && v->kept <= 1 && v->len <= AUTORUN_REPORT_BYTES_MAX &&
	       !(nothing && v->len);
}

static int check_record(const char *report, size_t len, size_t at, struct record *r, struct err *e)
{
	if (len - at < sizeof *r)
		return err_set(e, ERR_CORRUPT, "a report of autorun files ends within a record");
	memcpy(r, report + at, sizeof *r);
	if (r->path_len == 0 || r->path_len >= PATH_MAX || r->program_len > PROGRAM_MAX || !version_valid(&r->before) ||
	    !version_valid(&r->after))
		return err_set(e, ERR_CORRUPT, "a report of autorun files with an invalid record");
	size_t size = (sizeof *r + r->path_len + r->program_len + r->before.len + r->after.len + 7) / 8 * 8;
	if (r->size != size || len - at < size)
		return err_set(e, ERR_CORRUPT, "a report of autorun files with a record of the wrong length");
	const char *path = report + at + sizeof *r;
	if (path[0] != '/' || memchr(path, 0, r->path_len))
		return err_set(e, ERR_CORRUPT, "a report of autorun files with an invalid path");
	return 0;
}

int autorun_report_check(const void *report, size_t len, struct err *e)
{
	struct autorun_head h;
	struct record r;
	size_t at = sizeof h;
	if (len < sizeof h || len > AUTORUN_REPORT_BYTES_MAX)
		return err_set(e, ERR_CORRUPT, "a report of autorun files of %zu bytes", len);
	memcpy(&h, report, sizeof h);
	if (h.magic != AUTORUN_REPORT_MAGIC || h.version != AUTORUN_REPORT_VERSION || h.total_len != len ||
	    h.count > h.changed)
		return err_set(e, ERR_CORRUPT, "not a report of autorun files");
	for (uint32_t i = 0; i < h.count; i++) {
		if (check_record(report, len, at, &r, e) < 0)
			return -1;
		at += r.size;
	}
	if (at != len)
		return err_set(e, ERR_CORRUPT, "a report of autorun files with something behind it");
	return 0;
}

bool autorun_report_sealed(const void *report, const uint8_t key[AUTORUN_SEAL_BYTES])
{
	struct autorun_head h;
	uint8_t seal[AUTORUN_SEAL_BYTES], differs = 0;
	memcpy(&h, report, sizeof h);
	mem_auto char *copy = mem_dup(report, h.total_len);
	memset(copy + offsetof(struct autorun_head, seal), 0, sizeof h.seal);
	hash_hmac_sha256(key, AUTORUN_SEAL_BYTES, copy, h.total_len, seal);
	for (size_t i = 0; i < sizeof seal; i++)
		differs |= seal[i] ^ h.seal[i];
	return !differs;
}

static struct autorun_version version_read(const struct version *v, const char *text)
{
	return (struct autorun_version){
		.type = (enum autorun_type)v->type, .mode = v->mode, .kept = v->kept, .text = text, .len = v->len
	};
}

bool autorun_report_next(const void *report, size_t *at, struct autorun_record *ret)
{
	struct autorun_head h;
	struct record r;
	memcpy(&h, report, sizeof h);
	if (*at == 0)
		*at = sizeof h;
	if (*at >= h.total_len)
		return false;
	memcpy(&r, (const char *)report + *at, sizeof r);
	const char *path = (const char *)report + *at + sizeof r, *program = path + r.path_len,
		   *before = program + r.program_len;
	*ret = (struct autorun_record){ .path = path,
					.path_len = r.path_len,
					.program = program,
					.program_len = r.program_len,
					.before = version_read(&r.before, before),
					.after = version_read(&r.after, before + r.before.len) };
	*at += r.size;
	return true;
}

/* ---- as JSON ---- */

static void write_file(const struct autorun_record *r, struct jw *w)
{
	jw_obj(w);
	jw_kstrn(w, "path", r->path, r->path_len);
	jw_kstr(w, "change", autorun_record_change(r));
	jw_kstrn(w, "program", r->program, r->program_len);
	jw_obj_end(w);
}

void autorun_report_members(const struct autorun_head *h, uint32_t partial, const char *ref, size_t files_max,
			    struct jw *w)
{
	struct autorun_record r;
	size_t at = 0, n = 0, bytes = 0;

	jw_kuint(w, "changed", h ? h->changed : 0);
	if (h && h->changed) {
		jw_karr(w, "files");
		for (; n < files_max && bytes < MEMBERS_BYTES_MAX && autorun_report_next(h, &at, &r); n++) {
			write_file(&r, w);
			/* An estimate that allows for JSON escapes. */
			bytes += r.path_len * 2 + 64;
		}
		jw_arr_end(w);
		if (h->changed > n)
			jw_kuint(w, "omitted", h->changed - n);
		if (ref)
			jw_kstr(w, "reportRef", ref);
	}
	jw_kstr(w, "examined", !partial ? "all" : partial & AUTORUN_PARTIAL_FAILED ? "none" : "part");
	if (!partial)
		return;
	jw_karr(w, "notExamined");
	for (unsigned bit = 0; autorun_partial_name(bit); bit++)
		if (partial & 1u << bit)
			jw_str(w, autorun_partial_name(bit));
	jw_arr_end(w);
}
