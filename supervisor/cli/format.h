#ifndef BAILIFF_CLI_FORMAT_H
#define BAILIFF_CLI_FORMAT_H

/*
 * Output for people: aligned tables, colours on a terminal (unless NO_COLOR is set), times relative to now. Everything
 * that a child process wrote is sanitised first.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum format_colour { FORMAT_PLAIN, FORMAT_DIM, FORMAT_BOLD, FORMAT_RED, FORMAT_GREEN, FORMAT_YELLOW, FORMAT_CYAN };

bool format_has_control(int fd); /* a terminal that understands control sequences: not TERM=dumb */
bool format_coloured(int fd);
unsigned format_height(int fd);
/* Appends `text`, in that colour if `on`. */
void format_paint(struct buf *out, bool on, enum format_colour colour, const char *text);

/* A table: columns are as wide as their widest cell; the last one is cut at the terminal's edge. */
#define FORMAT_COLUMNS 12
struct format_table {
	size_t ncolumns, ncells;
	bool optional[FORMAT_COLUMNS]; /* left out, from the right, where the last column has too little room */
	struct format_cell {
		char *text;
		enum format_colour colour;
	} * cells;
};
void format_table_init(struct format_table *t, const char *const *heads, size_t n);
void format_table_cell(struct format_table *t, enum format_colour colour, const char *text); /* row by row; sanitised */
/* Renders it for stdout, and frees it. */
void format_table_finish(struct format_table *t, struct buf *out);

/* A list as a table with the columns of `spec` (verbs.def), or as a JSON array. The exit status. */
int format_columns(const char *spec, struct jval list, bool as_json);
/* Only the ids of the list, which are its first column, one per line. The exit status. */
int format_ids(const char *spec, struct jval list);
/* One record: for people, or as JSON. The exit status. */
int format_record(struct jval record, bool as_json);

/* A process's command on one line, quoted for a shell where necessary; not sanitised. */
void format_command(struct jval process, struct buf *out);
/* Its duration so far: durationMs, or since startedAt. */
void format_duration(struct jval process, uint64_t now_us, struct buf *out);

/* JSON for people: indented, strings sanitised. */
void format_json(struct jval v, unsigned indent, struct buf *out);

/* A string without quotes, sanitised and on one line; other values unchanged. */
void format_scalar(struct jval v, struct buf *out);

/*
 * All data is printed through this function. On a terminal, JSON gets \u escapes for control characters, which does not
 * change its value; other text is sanitised by the caller. Elsewhere the bytes are written unchanged. 0, or −1 with
 * errno.
 */
int format_write(int fd, const char *text, size_t n);
/*
 * The same to stdout. 0, or −1; the first failure but EPIPE is printed, and then the verb does not exit with 0
 * (format_print_failed), so that callers which go on may ignore the result.
 */
int format_print(const char *text, size_t n);
bool format_print_failed(void);
/* All of it to stdout. The exit status: 0, or EXIT_FAILED. */
int format_out(const struct buf *b);
/* Output of a process as one line of JSON: stream and text, or base64 where the bytes are not UTF-8. */
void format_output_line(const char *stream, const char *p, size_t n, struct buf *out);

#endif
