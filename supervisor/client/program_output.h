#ifndef BAILIFF_CLIENT_PROGRAM_OUTPUT_H
#define BAILIFF_CLIENT_PROGRAM_OUTPUT_H

struct buf;
struct err;

/* Runs one of our own programs outside of any sandbox and appends the JSON object that it prints; anything else is an
 * error. */
int program_output(char *const argv[], struct buf *ret, struct err *e);

#endif
