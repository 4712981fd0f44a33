/*
 * Messages are formatted into the fixed array of struct err and truncated at its end; wrapping moves the old message
 * behind the new words. All functions accept e == NULL, for callers that only need the return value.
 */

#include "runtime/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Formats into a copy first, because callers pass parts of the same struct err as arguments. */
static void err_fill(struct err *e, enum err_code code, int sys, const char *field, const char *fmt, va_list ap)
{
	struct err n = { .code = code, .sys = sys };

	vsnprintf(n.message, sizeof(n.message), fmt, ap);
	if (field)
		snprintf(n.field, sizeof(n.field), "%s", field);
	*e = n;
}

/* Appends ": <text>", truncated to the size of the message. */
static void err_append(char message[ERR_MESSAGE_MAX], const char *text)
{
	size_t len = strlen(message), space = ERR_MESSAGE_MAX - 1 - len, n = strlen(text);

	if (space < 2)
		return;
	memcpy(message + len, ": ", 2);
	n = n < space - 2 ? n : space - 2;
	memcpy(message + len + 2, text, n);
	message[len + 2 + n] = '\0';
}

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	err_fill(e, code, 0, NULL, fmt, ap);
	va_end(ap);
	return -1;
}

int err_field(struct err *e, const char *field, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	err_fill(e, ERR_INVALID, 0, field, fmt, ap);
	va_end(ap);
	return -1;
}

int err_at(struct err *e, enum err_code code, const char *field, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	err_fill(e, code, 0, field, fmt, ap);
	va_end(ap);
	return -1;
}

int err_not_known(struct err *e, const char *field, const char *id)
{
	return err_at(e, ERR_NOT_FOUND, field, "%s '%.80s' is not known", field, id);
}

int err_because(struct err *e, enum err_code code, enum err_reason reason, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	err_fill(e, code, 0, NULL, fmt, ap);
	va_end(ap);
	e->reason = reason;
	return -1;
}

int err_sys(struct err *e, int errnum, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	err_fill(e, ERR_SYS, errnum, NULL, fmt, ap);
	va_end(ap);
	err_append(e->message, strerror(errnum));
	return -1;
}

/* The new words come first, so that truncation removes the innermost detail and not the intent. */
int err_wrap(struct err *e, const char *fmt, ...)
{
	char text[ERR_MESSAGE_MAX];
	va_list ap;

	if (!e)
		return -1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (e->message[0])
		err_append(text, e->message);
	memcpy(e->message, text, sizeof(text));
	return -1;
}

const char *err_code_name(enum err_code code)
{
	static const char *const names[] = {
		[ERR_NONE] = "none",
		[ERR_SYS] = "system",
		[ERR_INVALID] = "invalid",
		[ERR_NOT_ALLOWED] = "not_allowed",
		[ERR_NOT_FOUND] = "not_found",
		[ERR_CONFLICT] = "conflict",
		[ERR_PERMISSION] = "permission",
		[ERR_UNAVAILABLE] = "unavailable",
		[ERR_EXHAUSTED] = "exhausted",
		[ERR_EXPIRED] = "expired",
		[ERR_SANDBOX] = "sandbox",
		[ERR_STATE] = "state",
		[ERR_CORRUPT] = "corrupt",
		[ERR_INTERNAL] = "internal",
	};

	if ((unsigned)code >= sizeof(names) / sizeof(names[0]))
		return "unknown";
	return names[code];
}

static const struct {
	const char *name, *advice;
} reasons[] = {
	[REASON_NONE] = { NULL, NULL },
#define REASON(NAME, name, meaning, advice) [REASON_##NAME] = { name, advice },
#include "runtime/base/err_reasons.def"
};

const char *err_reason_name(enum err_reason reason)
{
	return (unsigned)reason < REASON_COUNT ? reasons[reason].name : NULL;
}

const char *err_reason_advice(enum err_reason reason)
{
	return (unsigned)reason < REASON_COUNT ? reasons[reason].advice : NULL;
}

enum err_reason err_reason_of(const char *name)
{
	for (int i = REASON_NONE + 1; i < REASON_COUNT; i++)
		if (strcmp(reasons[i].name, name) == 0)
			return (enum err_reason)i;
	return REASON_NONE;
}
