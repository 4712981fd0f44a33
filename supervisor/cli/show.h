#ifndef BAILIFF_CLI_SHOW_H
#define BAILIFF_CLI_SHOW_H

/*
 * What people see: aligned tables, colours on a terminal (unless NO_COLOR is set), times relative to now. Everything
 * that came from a child is made harmless before it is shown.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum show_colour { SHOW_PLAIN, SHOW_DIM, SHOW_BOLD, SHOW_RED, SHOW_GREEN, SHOW_YELLOW, SHOW_CYAN };

bool show_coloured(int fd);
unsigned show_width(int fd); /* columns of the terminal; 0 = not a terminal */
unsigned show_height(int fd);
/* Appends `text` in that colour, if `on`. */
void show_paint(struct buf *out, bool on, enum show_colour colour, const char *text);
enum show_colour show_status_colour(const char *status);

/* A table: columns are as wide as their widest cell, the last one is cut at the terminal's edge. */
#define SHOW_COLUMNS 10
struct show_table {
	size_t ncolumns, ncells;
	struct show_cell {
		char *text;
		enum show_colour colour;
	} * cells;
};
void show_table_init(struct show_table *t, const char *const *heads, size_t n);
void show_table_cell(struct show_table *t, enum show_colour colour, const char *text); /* row by row; sanitised */
void show_table_render(const struct show_table *t, bool coloured, unsigned width, struct buf *out);
void show_table_done(struct show_table *t);

/* A list of records: a table for people, a JSON array for programs. */
struct show_list {
	struct show_table table;
	struct buf json;
	uint64_t now_us; /* when it was begun, for ages */
	bool as_json;
};
void show_list_init(struct show_list *l, const char *const *heads, size_t n, bool as_json);
/* With as_json the element is taken as it is; false: its cells are wanted. */
bool show_list_takes(struct show_list *l, struct jval element);
int show_list_print(struct show_list *l); /* the exit status */
void show_list_done(struct show_list *l);
#define show_list_auto __attribute__((cleanup(show_list_done)))

void show_ago(struct jval timestamp, uint64_t now_us, struct buf *out);  /* "3s ago" */
void show_left(struct jval timestamp, uint64_t now_us, struct buf *out); /* "12m" */
/* Of a process: its command as one line, quoted where a shell would need it; not sanitised. */
void show_command(struct jval process, struct buf *out);
/* Its duration so far: durationMs, or since startedAt. */
void show_duration(struct jval process, uint64_t now_us, struct buf *out);
/* "0", "3", "KILL" or "-" */
void show_exit(struct jval process, struct buf *out);

/* JSON for people: indented, strings made harmless. */
void show_json(struct jval v, unsigned indent, struct buf *out);

/* A string made harmless and kept in its line, without quotes; what is not a string as it is. */
void show_scalar(struct jval v, struct buf *out);

/*
 * Everything that is printed from data goes through here: on a terminal, JSON gets \u escapes for what a terminal must
 * not be shown and stays the same JSON; other texts are sanitised before. Elsewhere the bytes are written as they are.
 * 0, or −1 with errno.
 */
int show_write(int fd, const char *text, size_t n);
/* All of it to stdout; 0, or 1 when that failed (an exit status). */
int show_out(const struct buf *b);

#endif
