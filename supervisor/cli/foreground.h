#ifndef BAILIFF_CLI_FOREGROUND_H
#define BAILIFF_CLI_FOREGROUND_H

#include <stdbool.h>
#include <stdint.h>

struct remote;

struct foreground {
	struct remote *remote;
	const char *process_id;
	const char *name;        /* of the command, for messages */
	uint64_t after_sequence; /* its events after this one are wanted */
	bool json;               /* events instead of bytes */
	bool forward_stdin;
};

/* Follows a process until its end: output, stdin, signals. Returns the exit status. */
int foreground_follow(const struct foreground *o);

#endif
