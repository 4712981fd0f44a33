/*
 * One write call per line, so that lines of several processes and threads do not mix. Under systemd the level is sent
 * as the journal's "<n>" prefix. In a file each line begins with the time; other readers of stderr add their own.
 * Messages are sanitized, because parts of them come from clients and end up on a terminal.
 */

#include "runtime/base/log.h"
#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Set once by log_setup, before any thread starts, and only read afterwards. */

static char log_name[48] = "bailiff";
static enum log_level log_most = LOG_LEVEL_INFO;
static bool log_json;
static bool log_journal;
static bool log_times;

static const struct {
	const char *name;
	char priority; /* syslog priority, for the system journal */
} log_levels[] = {
	[LOG_LEVEL_ERROR] = { "error", '3' },
	[LOG_LEVEL_WARNING] = { "warning", '4' },
	[LOG_LEVEL_INFO] = { "info", '6' },
	[LOG_LEVEL_DEBUG] = { "debug", '7' },
};

static bool log_stderr_is_file(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode);
}

/* All descendants of a service inherit JOURNAL_STREAM: it is valid only if it describes this stderr. */
static bool log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char mine[64];
	struct stat st;

	if (!stream || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(mine, sizeof(mine), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	return strcmp(stream, mine) == 0;
}

void log_setup(const char *name, enum log_level level, bool json)
{
	snprintf(log_name, sizeof(log_name), "%s", name);
	log_most = level;
	log_json = json;
	log_journal = log_stderr_is_journal();
	log_times = !json && log_stderr_is_file();
}

const char *log_line_message(const char *line)
{
	size_t n = strspn(line, "0123456789-T:.Z");

	return n == sizeof "2026-11-15T02:00:00.123456Z" - 1 && line[n] == ' ' ? line + n + 1 : line;
}

static void log_line_json(struct buf *line, enum log_level level, const struct buf *message)
{
	struct jw w = jw_on(line);
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_real_us(), now);
	jw_obj(&w);
	jw_kstr(&w, "time", now);
	jw_kstr(&w, "level", log_levels[level].name);
	jw_kstr(&w, "who", log_name);
	jw_kint(&w, "pid", getpid());
	jw_kstrn(&w, "message", buf_cstr(message), message->len);
	jw_obj_end(&w);
}

/* A newline in a message must not look like a second message. */
static void log_line_text(struct buf *line, enum log_level level, const struct buf *message)
{
	const char *p = buf_cstr(message), *end = p + message->len;
	char now[CLOCK_TEXT_MAX];

	if (log_times) {
		clock_format(clock_real_us(), now);
		buf_printf(line, "%s ", now);
	}
	buf_printf(line, "%s: %s: ", log_name, log_levels[level].name);
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		text_sanitize(p, (size_t)((nl ? nl : end) - p), line);
		if (!nl)
			break;
		buf_str(line, "\\n");
		p = nl + 1;
	}
}

static void log_write(enum log_level level, const char *fmt, va_list ap)
{
	buf_auto struct buf message = BUF_INIT;
	buf_auto struct buf line = BUF_INIT;
	int keep = errno;

	if (level > log_most)
		return;
	buf_vprintf(&message, fmt, ap);
	if (log_journal)
		buf_printf(&line, "<%c>", log_levels[level].priority);
	if (log_json)
		log_line_json(&line, level, &message);
	else
		log_line_text(&line, level, &message);
	buf_byte(&line, '\n');
	fd_write_all(STDERR_FILENO, line.data, line.len);
	errno = keep;
}

#define LOG_FUNCTION(name, level)             \
	void log_##name(const char *fmt, ...) \
	{                                     \
		va_list ap;                   \
                                              \
		va_start(ap, fmt);            \
		log_write(level, fmt, ap);    \
		va_end(ap);                   \
	}
LOG_FUNCTION(error, LOG_LEVEL_ERROR)
LOG_FUNCTION(warning, LOG_LEVEL_WARNING)
LOG_FUNCTION(info, LOG_LEVEL_INFO)
LOG_FUNCTION(debug, LOG_LEVEL_DEBUG)
