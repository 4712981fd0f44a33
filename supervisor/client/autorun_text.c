#include "supervisor/client/autorun_text.h"

#include "runtime/base/buf.h"
#include "runtime/base/text.h"

#include <string.h>

#define PATHS_SHOWN 6u
#define PROGRAMS_MAX 16u

static const struct {
	const char *word, *text;
} reasons[] = {
	{ "folders", "there are too many folders" },
	{ "time", "it took too long" },
	{ "files", "there are too many such files" },
	{ "shut", "a folder could not be opened" },
	{ "deep", "a path is too long" },
	{ "failed", "the sandbox ended before it could be done" },
};

/* "added PATH, modified PATH and 3 more", for one program. */
static void write_files(struct jval files, const char *program, struct buf *out)
{
	size_t shown = 0, all = 0;

	for (struct jiter it = jiter_on(files); jiter_next(&it);) {
		buf_auto struct buf path = BUF_INIT;
		char change[32];

		if (!jval_is_str(jval_get(it.value, "program"), program) || ++all > PATHS_SHOWN)
			continue;
		jval_str(jval_get(it.value, "change"), change, sizeof change);
		jval_str_buf(jval_get(it.value, "path"), &path);
		buf_printf(out, "%s%s ", shown++ ? ", " : "", change);
		text_sanitize_line(buf_cstr(&path), path.len, out);
	}
	if (all > shown)
		buf_printf(out, " and %zu more", all - shown);
}

static bool is_known(char known[][64], size_t n, const char *program)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(known[i], program) == 0)
			return true;
	return false;
}

static void write_programs(struct jval autorun, struct buf *out)
{
	struct jval files = jval_get(autorun, "files");
	char known[PROGRAMS_MAX][64];
	size_t n = 0;

	for (struct jiter it = jiter_on(files); jiter_next(&it) && n < PROGRAMS_MAX;) {
		if (jval_str(jval_get(it.value, "program"), known[n], sizeof known[n]) >= sizeof known[n] ||
		    is_known(known, n, known[n]))
			continue;
		buf_printf(out, "this command changed files that %s executes outside the sandbox: ", known[n]);
		write_files(files, known[n], out);
		buf_byte(out, '\n');
		n++;
	}
	uint64_t omitted = jval_uint(jval_get(autorun, "omitted"), 0);
	if (omitted)
		buf_printf(out, "this command changed %llu more files that programs execute outside the sandbox\n",
			   (unsigned long long)omitted);
}

static void write_not_examined(struct jval autorun, struct buf *out)
{
	size_t n = 0;

	buf_str(out, jval_is_str(jval_get(autorun, "examined"), "none")
			     ? "files that programs execute outside the sandbox were not examined for changes ("
			     : "not all files that programs execute outside the sandbox were examined for changes (");
	for (struct jiter it = jiter_on(jval_get(autorun, "notExamined")); jiter_next(&it);)
		for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
			if (jval_is_str(it.value, reasons[i].word))
				buf_printf(out, "%s%s", n++ ? ", " : "", reasons[i].text);
	buf_str(out, ")\n");
}

bool autorun_describe(struct jval autorun, struct buf *out)
{
	if (autorun.type != JT_OBJECT)
		return false;
	bool changed = jval_uint(jval_get(autorun, "changed"), 0) > 0;
	if (changed)
		write_programs(autorun, out);
	if (!jval_is_str(jval_get(autorun, "examined"), "all"))
		write_not_examined(autorun, out);
	return changed;
}
