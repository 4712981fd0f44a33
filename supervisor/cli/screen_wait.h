#ifndef BAILIFF_CLI_SCREEN_WAIT_H
#define BAILIFF_CLI_SCREEN_WAIT_H

/* Waits for a condition on a terminal's screen: shared by `screen` and `input`. */

#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct cli;
struct err;
struct remote_answer;

/* The options of a verb that state the condition; −1 = no such option. */
struct screen_wait_options {
	int text, regex, idle, exit, timeout;
};

struct screen_wait {
	bool wanted; /* there are conditions; the wait ends with the first that becomes true */
	const char *text, *regex;
	uint64_t idle_ms; /* 0 = no condition */
	bool exit;
	uint64_t timeout_ms;
	bool has_after; /* ignore output before this offset */
	uint64_t after;
};

/* 0, or the exit status after a usage error. */
int screen_wait_parse(struct cli *c, const struct screen_wait_options *o, struct screen_wait *ret);
/* 0: a condition became true, 1: timed out. *ret has the screen at that moment, as text. */
int screen_wait_run(struct cli *c, const char *id, const struct screen_wait *l, struct remote_answer *ret,
		    struct err *e);
/* The rows of a text screen, for a person. */
void screen_wait_append_text(struct jval screen, struct buf *out);
void screen_wait_print_timeout(const char *id);

#endif
