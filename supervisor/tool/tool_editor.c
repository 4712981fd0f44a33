/*
 * `bailiff-tool TOOL --editor`: the text of a file as the user's editor has it, with changes that are not saved.
 *
 * The file was opened before this asks, in the sandbox and with its rights. The request names what was opened: the path
 * without links, the device and the inode. The client (supervisor/gateway/acp/acp_buffer.c) asks the editor only if the
 * same path names the same file there. So a file that the sandbox hides or replaces (private directories, copy on
 * write) is never asked for. Without an answer the file counts as it is on disk.
 *
 * Editors keep text with \n and without a byte order mark; the file's own convention is restored.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/fd.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MS 5000
#define ANSWER_MAX (8u << 20)
#define ASKED_MAX (1u << 20) /* larger files are not asked for */
#define BOM "\xef\xbb\xbf"

static bool enabled, unsaved;

void tool_editor_enable(void) { enabled = true; }

bool tool_editor_unsaved(void) { return unsaved; }

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A line, without the newline. −1: the end of input, or no answer in time. */
static int read_line(struct buf *ret)
{
	const int64_t until = now_ms() + ANSWER_MS;

	while (ret->len < ANSWER_MAX) {
		struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
		int64_t left = until - now_ms();
		int r = poll(&p, 1, left > 0 ? (int)left : 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		char *at = buf_reserve(ret, 65536);
		ssize_t n = read(STDIN_FILENO, at, 65536);
		if (n <= 0)
			return -1;
		ret->len += (size_t)n;
		if (at[n - 1] == '\n') {
			ret->len--;
			return 0;
		}
	}
	return -1;
}

static int ask(int fd, const struct stat *st, struct buf *ret_answer)
{
	buf_auto struct buf line = BUF_INIT;
	struct jw w = jw_on(&line);
	char name[64], path[PATH_MAX];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, path, sizeof(path) - 1);
	if (n <= 0)
		return -1;
	path[n] = '\0';
	jw_obj(&w);
	jw_kstr(&w, "path", path);
	jw_kuint(&w, "device", (uint64_t)st->st_dev);
	jw_kuint(&w, "inode", (uint64_t)st->st_ino);
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	return fd_write_all(STDERR_FILENO, line.data, line.len) < 0 ? -1 : read_line(ret_answer);
}

static void take_convention(const struct buf *file, struct buf *text)
{
	buf_auto struct buf out = BUF_INIT;
	const bool crlf = memmem(buf_cstr(file), file->len, "\r\n", 2) && !memmem(buf_cstr(text), text->len, "\r\n", 2);

	if (file->len >= 3 && memcmp(file->data, BOM, 3) == 0 && !(text->len >= 3 && memcmp(text->data, BOM, 3) == 0))
		buf_str(&out, BOM);
	for (size_t i = 0; i < text->len; i++) {
		if (crlf && text->data[i] == '\n')
			buf_byte(&out, '\r');
		buf_byte(&out, text->data[i]);
	}
	buf_reset(text);
	buf_append(text, buf_cstr(&out), out.len);
}

void tool_editor_replace(int fd, const struct stat *st, struct buf *file)
{
	buf_auto struct buf line = BUF_INIT, text = BUF_INIT;

	if (!enabled || file->len > ASKED_MAX)
		return;
	if (ask(fd, st, &line) < 0) {
		enabled = false; /* nobody answers; and a late answer must not be confused with that of another file */
		return;
	}
	struct jval v = jval_get(jval_of(buf_cstr(&line), line.len), "text");
	if (v.type != JT_STRING)
		return;
	jval_str_buf(v, &text);
	take_convention(file, &text);
	if (text.len == file->len && memcmp(buf_cstr(&text), buf_cstr(file), text.len) == 0)
		return;
	unsaved = true;
	buf_reset(file);
	buf_append(file, buf_cstr(&text), text.len);
}
