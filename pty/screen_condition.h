#ifndef BAILIFF_PTY_SCREEN_CONDITION_H
#define BAILIFF_PTY_SCREEN_CONDITION_H

/*
 * A condition on a screen's contents: a text, or a regular expression (POSIX extended; ^ and $ match the ends of a
 * line).
 *
 * With `after`, only text drawn after that output offset is considered, even if it has scrolled out since: a client
 * that types a command and waits for the prompt does not match the old one. Without it, text that is already on the
 * screen matches, too.
 *
 * Patterns are untrusted: length and repetitions are limited and back-references rejected, because those can make
 * matching take unbounded time.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct screen;

#define SCREEN_CONDITION_TEXT_MAX 4096u
#define SCREEN_CONDITION_REGEX_MAX 512u
#define SCREEN_CONDITION_SIZE_MAX 1000u /* items of a pattern with its repetitions written out */

enum screen_match { SCREEN_CONDITION_NONE, SCREEN_CONDITION_TEXT, SCREEN_CONDITION_REGEX };

struct screen_condition {
	char *text;      /* or NULL */
	regex_t *regex;  /* or NULL */
	size_t scan_max; /* bytes of the newest text that the regex is matched with */
	bool has_after;
	uint64_t after;
};

/* `text` and `regex` may be NULL. ERR_INVALID names until.text or until.regex. */
int screen_condition_init(struct screen_condition *u, const char *text, const char *regex, struct err *e);
void screen_condition_done(struct screen_condition *u);
/* Returns the first condition that is met now. */
enum screen_match screen_condition_check(const struct screen_condition *u, const struct screen *s);

#endif
