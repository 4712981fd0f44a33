/*
 * apply_patch. First the new text of every file is computed; if one hunk does not apply, nothing is changed. Then the
 * files are written, each one atomically. If a write fails, the earlier ones stay, and the result reports each file.
 */

#include "supervisor/tool/file_tool.h"
#include "supervisor/tool/patch.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct work {
	struct buf text; /* its new content */
	size_t old_bytes;
	mode_t mode; /* of the file that is moved */
	bool done;
	struct err err;
};

/* Computes the new text without changing anything; conflicts with existing files are found here. */
static int prepare_file(const struct patch_file *f, struct work *w, struct err *e)
{
	buf_auto struct buf old = BUF_INIT;

	if (f->change == PATCH_ADD) {
		if (tool_file_exists(f->path))
			return err_because(e, ERR_CONFLICT, REASON_FILE_EXISTS,
					   "'%.200s' is to be added but already exists", f->path);
		return patch_text(f, "", 0, &w->text, e);
	}
	if (tool_file_load(f->path, &old, e) < 0)
		return -1;
	w->old_bytes = old.len;
	if (f->move_to) {
		struct stat st;
		if (tool_file_exists(f->move_to))
			return err_set(e, ERR_CONFLICT, "'%.200s' is to be moved to '%.200s', which already exists",
				       f->path, f->move_to);
		if (stat(f->path, &st) < 0)
			return err_sys(e, errno, "read '%.200s'", f->path);
		w->mode = st.st_mode & 07777;
	}
	if (f->change == PATCH_DELETE && !f->nhunks)
		return 0;
	return patch_text(f, buf_cstr(&old), old.len, &w->text, e);
}

/* A move writes the new file before it removes the old one: if it is interrupted, both exist. */
static int write_change(const struct patch_file *f, const struct work *w, struct err *e)
{
	unsigned flags = f->change == PATCH_ADD || f->move_to ? TOOL_STORE_FOLDERS | TOOL_STORE_NEW : 0;

	if (f->change != PATCH_DELETE &&
	    tool_file_store(f->move_to ? f->move_to : f->path, buf_cstr(&w->text), w->text.len, flags, w->mode, e) < 0)
		return -1;
	return f->change == PATCH_DELETE || f->move_to ? tool_file_remove(f->path, e) : 0;
}

static void file_json(const struct patch_file *f, const struct work *k, bool dry, struct jw *w)
{
	static const char *const changes[] = {
		[PATCH_ADD] = "created", [PATCH_DELETE] = "deleted", [PATCH_UPDATE] = "modified"
	};

	jw_obj(w);
	jw_kstr(w, "path", f->move_to ? f->move_to : f->path);
	if (f->move_to)
		jw_kstr(w, "movedFrom", f->path);
	jw_kstr(w, "change", f->move_to ? "moved" : changes[f->change]);
	jw_kstr(w, "status", k->err.code ? "failed" : k->done ? "applied" : dry ? "checked" : "not_applied");
	if (k->err.code)
		jw_kstr(w, "message", k->err.message);
	if (f->change != PATCH_DELETE)
		jw_kuint(w, "bytes", k->text.len);
	if (f->change != PATCH_ADD)
		jw_kuint(w, "oldBytes", k->old_bytes);
	jw_obj_end(w);
}

/* The path that both change, NULL if there is none: the second change would overwrite the first, or fail halfway. */
static const char *path_of_both(const struct patch_file *a, const struct patch_file *b)
{
	const char *const of_a[] = { a->path, a->move_to }, *const of_b[] = { b->path, b->move_to };

	for (int i = 0; i < 2; i++)
		for (int k = 0; k < 2; k++)
			if (of_a[i] && of_b[k] && strcmp(of_a[i], of_b[k]) == 0)
				return of_a[i];
	return NULL;
}

int tool_apply_patch(struct jval args, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	patch_auto struct patch p = { 0 };
	bool dry = jval_bool(jval_get(args, "dryRun"), false);
	size_t failed = 0;

	jval_str_buf(jval_get(args, "patch"), &text);
	if (patch_parse(buf_cstr(&text), text.len, &p, e) < 0)
		return -1;
	for (size_t i = 0; i < p.nfiles; i++) {
		for (size_t k = 0; k < i; k++) {
			const char *twice = path_of_both(&p.files[i], &p.files[k]);
			if (twice)
				return err_field(e, "patch", "changes '%.200s' more than once", twice);
		}
	}
	struct work *work = mem_zalloc(p.nfiles, sizeof(*work));
	for (size_t i = 0; i < p.nfiles; i++)
		failed += prepare_file(&p.files[i], &work[i], &work[i].err) < 0;
	for (size_t i = 0; !dry && !failed && i < p.nfiles; i++) {
		failed += write_change(&p.files[i], &work[i], &work[i].err) < 0;
		work[i].done = !failed;
	}
	jw_karr(w, "files");
	for (size_t i = 0; i < p.nfiles; i++)
		file_json(&p.files[i], &work[i], dry, w);
	jw_arr_end(w);
	for (size_t i = 0; i < p.nfiles; i++) {
		if (work[i].err.code && !e->code)
			*e = work[i].err;
		buf_done(&work[i].text);
	}
	free(work);
	return failed ? -1 : 0;
}
