#ifndef BAILIFF_CLIENT_PROGRAM_OUTPUT_H
#define BAILIFF_CLIENT_PROGRAM_OUTPUT_H

struct buf;
struct err;

/* Runs one of bailiff's programs outside any sandbox and appends the JSON object that it prints; any other output is an
 * error. */
int program_output(char *const argv[], struct buf *ret, struct err *e);

#endif
