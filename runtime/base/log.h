#ifndef BAILIFF_BASE_LOG_H
#define BAILIFF_BASE_LOG_H

/*
 * Diagnostics for the administrator, on stderr, from where the system journal gets them. Events go to the store
 * instead. Text: "bailiffd runtime: warning: message", in a file after the time; JSON: one object per line.
 *
 * error: something failed that an administrator has to repair; warning: a degraded service that continues; info: rare
 * changes of state; debug: everything else. errno survives a call. Secrets never belong in a message.
 */

#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

void log_setup(const char *name, enum log_level level, bool json);
/* A line of a log file without the time at its beginning, if it has one. */
const char *log_line_message(const char *line);

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
