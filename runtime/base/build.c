/*
 * The text of `--version`. The programs' main files set `build`.
 */

#include "runtime/base/build.h"

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"

#include <stddef.h>

struct build build = { "unknown", "", "unknown" };

static const char *build_compiler(void)
{
#ifdef __clang__
	return "clang " __clang_version__;
#else
	return "gcc " __VERSION__;
#endif
}

static const char *build_architecture(void)
{
#if defined __aarch64__
	return "aarch64";
#elif defined __x86_64__
	return "x86_64";
#else
	return "unsupported";
#endif
}

void build_write(struct jw *w)
{
	jw_kstr(w, "version", BAILIFF_VERSION);
	jw_kstr(w, "build", build.id);
	if (build.date[0])
		jw_kstr(w, "date", build.date);
	jw_kstr(w, "type", build.type);
	jw_kstr(w, "compiler", build_compiler());
	jw_kstr(w, "architecture", build_architecture());
}

static void line_text(const char *label, struct jval v, struct buf *out)
{
	if (v.type != JT_STRING)
		return;
	buf_printf(out, "%-14s", label);
	jval_str_buf(v, out);
	buf_byte(out, '\n');
}

static void libraries_text(struct jval libraries, struct buf *out)
{
	const char *between = "";
	buf_printf(out, "%-14s", "libraries");
	for (struct jiter it = jiter_on(libraries); jiter_next(&it); between = ", ") {
		buf_str(out, between);
		jval_str_buf(it.key, out);
		buf_byte(out, ' ');
		jval_str_buf(it.value, out);
	}
	buf_byte(out, '\n');
}

static void cgroup_text(struct jval cgroup, struct buf *out)
{
	static const char *const lists[][2] = { { "v2Controllers", "; v2: " }, { "v1Controllers", "; v1: " } };
	buf_printf(out, "%-14s", "cgroup");
	jval_str_buf(jval_get(cgroup, "version"), out);
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		const char *before = lists[i][1];
		for (struct jiter it = jiter_on(jval_get(cgroup, lists[i][0])); jiter_next(&it); before = " ") {
			buf_str(out, before);
			jval_str_buf(it.value, out);
		}
	}
	buf_byte(out, '\n');
}

/* One line for each missing feature, because its absence matters; one line for all others. */
static void features_text(struct jval features, struct buf *out)
{
	const char *between = "";
	buf_printf(out, "%-14s", "features");
	for (struct jiter it = jiter_on(features); jiter_next(&it);) {
		struct jval detail = jval_get(it.value, "detail");
		if (!jval_is_str(jval_get(it.value, "state"), "available"))
			continue;
		buf_str(out, between);
		jval_str_buf(jval_get(it.value, "name"), out);
		if (detail.type == JT_STRING) {
			buf_str(out, " (");
			jval_str_buf(detail, out);
			buf_byte(out, ')');
		}
		between = ", ";
	}
	buf_byte(out, '\n');
	for (struct jiter it = jiter_on(features); jiter_next(&it);) {
		if (!jval_is_str(jval_get(it.value, "state"), "unavailable"))
			continue;
		buf_printf(out, "%-14s", "missing");
		jval_str_buf(jval_get(it.value, "name"), out);
		buf_str(out, " (Linux ");
		jval_str_buf(jval_get(it.value, "since"), out);
		buf_str(out, "; ");
		jval_str_buf(jval_get(it.value, "detail"), out);
		buf_str(out, "): ");
		jval_str_buf(jval_get(it.value, "lost"), out);
		buf_byte(out, '\n');
	}
}

void build_text(const char *program, struct jval document, struct buf *out)
{
	buf_printf(out, "%s ", program);
	jval_str_buf(jval_get(document, "version"), out);
	buf_byte(out, '\n');
	line_text("build", jval_get(document, "build"), out);
	line_text("date", jval_get(document, "date"), out);
	line_text("type", jval_get(document, "type"), out);
	line_text("compiler", jval_get(document, "compiler"), out);
	line_text("architecture", jval_get(document, "architecture"), out);
	line_text("kernel", jval_get(document, "kernel"), out);
	if (jval_get(document, "libraries").type == JT_OBJECT)
		libraries_text(jval_get(document, "libraries"), out);
	if (jval_get(document, "cgroup").type == JT_OBJECT)
		cgroup_text(jval_get(document, "cgroup"), out);
	if (jval_get(document, "features").type == JT_ARRAY)
		features_text(jval_get(document, "features"), out);
}
