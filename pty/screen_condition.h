#ifndef BAILIFF_PTY_SCREEN_CONDITION_H
#define BAILIFF_PTY_SCREEN_CONDITION_H

/*
 * What somebody waits to see on a screen: a text, or a regular expression (POSIX extended; ^ and $ are the ends of a
 * line).
 *
 * With `after`, only what was drawn after that offset of the output counts, also if it has scrolled out of sight since:
 * whoever types a command and waits for the prompt does not meet the old one. Without it, what is on the screen
 * when the waiting begins counts as well.
 *
 * Patterns come from outside: length and repetitions are bounded and back-references refused, because these are what
 * can make matching take for ever.
 */

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct screen;

#define SCREEN_CONDITION_TEXT_MAX 4096u
#define SCREEN_CONDITION_REGEX_MAX 512u
#define SCREEN_CONDITION_REPEAT_MAX 100u /* all repetition counts of a pattern, multiplied */

enum screen_match { SCREEN_CONDITION_NONE, SCREEN_CONDITION_TEXT, SCREEN_CONDITION_REGEX };

struct screen_condition {
	char *text;     /* or NULL */
	regex_t *regex; /* or NULL */
	bool has_after;
	uint64_t after;
};

/* `text` and `regex` may be NULL. ERR_INVALID names until.text or until.regex. */
int screen_condition_init(struct screen_condition *u, const char *text, const char *regex, struct err *e);
void screen_condition_done(struct screen_condition *u);
/* The first of them that holds now. */
enum screen_match screen_condition_check(const struct screen_condition *u, const struct screen *s);

#endif
