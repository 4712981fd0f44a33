/*
 * What bailiff-model reads: its input line, a response's head, and a body that echoes the key. The first byte splits
 * the body; the result must not depend on it, and the key must not be in it.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/model/model_input.h"
#include "supervisor/model/redactor.h"
#include "supervisor/model/response_head.h"
#include "supervisor/model/stream_activity.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY "kk/kk=kkkkkk"

static void redact(const char *text, size_t n, size_t split, struct buf *out)
{
	struct redactor r = REDACTOR_INIT;

	redactor_add(&r, KEY);
	redactor_feed(&r, text, split, false, out);
	redactor_feed(&r, text + split, n - split, true, out);
	if (r.held.len)
		abort();
	redactor_done(&r);
}

static void check_input(const char *text, size_t n)
{
	struct model_input in;
	struct err e = ERR_INIT;

	if (model_input_parse(text, n, &in, &e) == 0) {
		for (size_t i = 0; i < in.nheaders; i++)
			if (strpbrk(in.header[i], "\r\n") || !strpbrk(in.header[i], ":;"))
				abort();
		if (!in.url || !in.timeouts.total_ms || !in.timeouts.silent_ms)
			abort();
	}
	model_input_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	buf_auto struct buf whole = BUF_INIT, parts = BUF_INIT, head = BUF_INIT;

	if (!size)
		return 0;
	const char *text = (const char *)data + 1;
	const size_t n = size - 1, split = n ? data[0] % (n + 1) : 0;
	mem_auto char *lines = mem_strndup(text, n);

	redact(text, n, 0, &whole);
	redact(text, n, split, &parts);
	if (whole.len != parts.len || (whole.len && memcmp(whole.data, parts.data, whole.len) != 0) ||
	    (whole.len && memmem(whole.data, whole.len, KEY, strlen(KEY))))
		abort();
	response_head_json(200, lines, &head);
	if (head.len < 2 || memchr(head.data, '\n', head.len - 1))
		abort();
	struct stream_activity a = { 0 }, b = { 0 };
	bool at_once = stream_activity_feed(&a, text, n), in_two = stream_activity_feed(&b, text, split);
	in_two |= stream_activity_feed(&b, text + split, n - split);
	if (at_once != in_two)
		abort();
	check_input(text, n);
	return 0;
}
