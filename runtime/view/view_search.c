#include "runtime/view/view_search.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/store/store.h"
#include "runtime/view/view_page.h"

#include <ctype.h>

#define CALL_NS (50ull * 1000 * 1000) /* after that a call examines no further document: it runs on the loop thread */
#define READ_BYTES (1u << 20)
#define OUTPUT_BYTES (8u << 20) /* of each stream */

/* The documents are read while the query is const; the store is needed for outputs and violations. */
struct search {
	const struct view_search_query *q;
	struct store *store;
};

/* ASCII letters match in either case. */
static bool contains(const char *text, size_t n, const char *part)
{
	size_t len = strlen(part);
	const int first[] = { tolower((unsigned char)*part), toupper((unsigned char)*part) };

	for (size_t i = 0; len <= n && i <= n - len; i++) {
		size_t k = 1;

		if (text[i] != (char)first[0] && text[i] != (char)first[1])
			continue;
		while (k < len && tolower((unsigned char)text[i + k]) == tolower((unsigned char)part[k]))
			k++;
		if (k >= len)
			return true;
	}
	return len == 0;
}

static bool string_contains(struct jval v, const char *part)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(v, &text);
	return contains(buf_cstr(&text), text.len, part);
}

/* A string anywhere in the value; jiter stops at JSCAN_DEPTH. */
static bool any_contains(struct jval v, const char *part)
{
	if (v.type == JT_STRING)
		return string_contains(v, part);
	if (v.type != JT_OBJECT && v.type != JT_ARRAY)
		return false;
	for (struct jiter it = jiter_on(v); jiter_next(&it);)
		if (any_contains(it.value, part))
			return true;
	return false;
}

/* The words of a command as one line. */
static bool command_contains(const struct process_doc *d, const char *part)
{
	buf_auto struct buf line = BUF_INIT;

	for (struct jiter it = jiter_on(d->command); jiter_next(&it);) {
		if (line.len)
			buf_byte(&line, ' ');
		jval_str_buf(it.value, &line);
	}
	return contains(buf_cstr(&line), line.len, part) ||
	       (d->commandLine.type == JT_STRING && string_contains(d->commandLine, part));
}

static bool is_below(struct jval cwd, const char *folder)
{
	buf_auto struct buf text = BUF_INIT;
	size_t n = strlen(folder);

	while (n > 1 && folder[n - 1] == '/')
		n--;
	jval_str_buf(cwd, &text);
	return text.len >= n && memcmp(buf_cstr(&text), folder, n) == 0 &&
	       (text.len == n || n == 1 || text.data[n] == '/');
}

/* Portions overlap by the length of the text, which may lie across their border. Expired outputs contain nothing. */
static bool stream_contains(struct store *s, const char *ref, const char *part)
{
	buf_auto struct buf bytes = BUF_INIT;
	size_t overlap = strlen(part) - 1;
	struct err ignored = ERR_INIT;

	for (uint64_t at = 0; at < OUTPUT_BYTES; at += READ_BYTES - overlap) {
		buf_reset(&bytes);
		if (store_output_read(s, ref, at, READ_BYTES, &bytes, &ignored) < 0)
			return false;
		if (contains(buf_cstr(&bytes), bytes.len, part))
			return true;
		if (bytes.len < READ_BYTES)
			return false;
	}
	return false;
}

static bool output_contains(struct store *s, const struct process_doc *d, const char *part)
{
	for (struct jiter it = jiter_on(d->outputRefs); jiter_next(&it);) {
		char ref[ID_SIZE] = "";

		view_copy_string(ref, jval_get(it.value, "outputRef"));
		if (*ref && stream_contains(s, ref, part))
			return true;
	}
	return false;
}

static bool exit_matches(const struct view_search_query *q, const struct process_doc *d)
{
	bool exited = d->exitCode.type == JT_NUMBER;

	if (q->by_exit && !(exited && jval_int(d->exitCode, 0) == q->exit))
		return false;
	return !q->nonzero || (process_doc_ended(d) && !(exited && jval_int(d->exitCode, 0) == 0));
}

/* What is known about denials and accesses. */
static bool access_matches(const struct search *search, const struct process_doc *d)
{
	const struct view_search_query *q = search->q;
	buf_auto struct buf text = BUF_INIT;
	struct violation_doc v;
	struct err ignored = ERR_INIT;

	if (!q->denied && !q->host && !q->path)
		return true;
	if (view_read(search->store, &violation_schema, d->processId, &text, &v, &ignored) != 0)
		view_clear(&violation_schema, &v);
	if (q->denied && !view_counted(v.violationCount) && !jval_is_str(d->category, "permission"))
		return false;
	if (q->host && !any_contains(d->network, q->host) && !any_contains(v.violations, q->host))
		return false;
	return !q->path || command_contains(d, q->path) || any_contains(d->cwd, q->path) ||
	       any_contains(d->autorun, q->path) || any_contains(v.violations, q->path);
}

/* The cheap conditions first. */
static bool matches(const void *query, const void *doc)
{
	const struct search *search = query;
	const struct view_search_query *q = search->q;
	const struct process_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && (!q->by_uid || d->uid == q->uid) && !process_doc_holds(d) &&
	       !(q->except && view_process_is_helper(d, q->except)) && exit_matches(q, d) &&
	       (!q->cwd || is_below(d->cwd, q->cwd)) && (!q->command || command_contains(d, q->command)) &&
	       access_matches(search, d) && (!q->output || output_contains(search->store, d, q->output));
}

static int find(struct view_page *p, struct err *e)
{
	const struct view_search_query *q = ((const struct search *)p->query)->q;
	char floor[ID_TEXT_MAX], top[ID_TEXT_MAX];

	id_floor(ID_KIND_PROCESS, q->since_ms, floor);
	p->floor = floor;
	p->deadline_ns = clock_boot_ns() + CALL_NS;
	if (q->until_ms < UINT64_MAX) {
		id_floor(ID_KIND_PROCESS, q->until_ms + 1, top);
		if (!p->cursor || strcmp(p->cursor, top) > 0)
			p->cursor = top;
	}
	int r = q->session_id ? view_page_scan_list(p, VIEW_SESSION_PROCESS, q->session_id, e)
			      : view_page_scan(p, VIEW_PAGE_QUERY(VIEW_PROCESS), "", e);

	p->floor = p->cursor = NULL;
	return r;
}

int view_search(struct store *s, uint32_t uid, const struct view_search_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = {
		"processes",   &process_schema, .matches = matches, .find = find, .write = view_write_listed_process,
		.next = "next"
	};
	const struct search search = { q, s };

	return view_page_write(&list, s, uid, q->limit, q->before, &search, out, e);
}
