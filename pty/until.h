#ifndef BAILIFF_PTY_UNTIL_H
#define BAILIFF_PTY_UNTIL_H

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

#define UNTIL_TEXT_MAX 4096u
#define UNTIL_REGEX_MAX 512u
#define UNTIL_REPEAT_MAX 100u /* all repetition counts of a pattern, multiplied */

enum until_match { UNTIL_NOTHING, UNTIL_TEXT, UNTIL_REGEX };

struct until {
	char *text;     /* or NULL */
	regex_t *regex; /* or NULL */
	bool has_after;
	uint64_t after;
};

/* `text` and `regex` may be NULL. ERR_INVALID names until.text or until.regex. */
int until_init(struct until *u, const char *text, const char *regex, struct err *e);
void until_done(struct until *u);
/* The first of them that holds now. */
enum until_match until_look(const struct until *u, const struct screen *s);

#endif
