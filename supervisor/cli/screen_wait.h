#ifndef BAILIFF_CLI_SCREEN_WAIT_H
#define BAILIFF_CLI_SCREEN_WAIT_H

/* Looking at a terminal's screen, and waiting until it shows something: what `screen` and `input` share. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct cli;
struct err;
struct remote_answer;

/* Which options of a verb say what is waited for; −1 = it has no such option. */
struct screen_wait_options {
	int text, regex, idle, exit, timeout;
};

struct screen_wait {
	bool wanted; /* something is waited for: the first of these that comes true */
	const char *text, *regex;
	uint64_t idle_ms; /* 0 = not asked for */
	bool exit;
	uint64_t timeout_ms;
	bool has_after; /* only what was drawn after this byte of the output counts */
	uint64_t after;
};

/* 0, or the exit status of a wrong command line. */
int screen_wait_parse(struct cli *c, const struct screen_wait_options *o, struct screen_wait *ret);
/* 0 = it came true, 1 = not in time; *ret has the screen of that moment, as text. */
int screen_wait_run(struct cli *c, const char *id, const struct screen_wait *l, struct remote_answer *ret,
		    struct err *e);
/* The rows of a text screen, for a person. */
void screen_wait_append_text(struct jval screen, struct buf *out);
void screen_wait_print_timeout(const char *id);

#endif
