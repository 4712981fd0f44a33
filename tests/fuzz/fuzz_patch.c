/*
 * A patch and a file's text, separated by the first 0xff: reading and applying terminates and stays within its memory.
 * Every file that would be written is one that rules and hooks check.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/engine/tool/tool.h"
#include "supervisor/tool/patch.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_named(const struct tool_paths *names, const char *path)
{
	for (size_t i = 0; i < names->count; i++)
		if (strcmp(names->path[i], path) == 0)
			return;
	abort();
}

static void check_names(const struct patch *p, const char *text, size_t n)
{
	json_auto_t *args = memchr(text, 0, n) ? NULL : json_pack("{s:s%}", "patch", text, n);
	struct tool_paths names;

	if (!args)
		return; /* JSON cannot contain such a text */
	tool_paths_of("apply_patch", args, &names);
	for (size_t i = 0; i < p->nfiles && !names.too_many; i++) {
		must_be_named(&names, p->files[i].path);
		if (p->files[i].move_to)
			must_be_named(&names, p->files[i].move_to);
	}
	tool_paths_done(&names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data, *cut = size ? memchr(data, 0xff, size) : NULL;
	size_t n = cut ? (size_t)(cut - text) : size;
	const char *old = cut ? cut + 1 : "";
	size_t old_len = cut ? size - n - 1 : 0;
	patch_auto struct patch p = { 0 };
	struct err e = ERR_INIT;
	if (patch_parse(text, n, &p, &e) < 0)
		return 0;
	check_names(&p, text, n);
	for (size_t i = 0; i < p.nfiles && i < 8; i++) {
		buf_auto struct buf out = BUF_INIT;
		(void)patch_text(&p.files[i], old, old_len, &out, &e);
	}
	return 0;
}
