#ifndef BAILIFF_SUPERVISOR_MODEL_KEY_READER_H
#define BAILIFF_SUPERVISOR_MODEL_KEY_READER_H

/*
 * Reads the API key from a file or a command, in a process of its own. That process is forked before bailiff-model
 * enters its role's sandbox, where no program can be executed, so that an expired key can be read again later. It takes
 * no arguments then: all that the confined process can do is to have the same key read, KEY_READER_READS times in all.
 * It ends with the process that started it, and so does a command that still runs.
 */

#include <stddef.h>

struct err;

#define KEY_MAX (16u << 10)
#define KEY_READER_READS 2
#define KEY_COMMAND_MS 10000

struct key {
	char text[KEY_MAX + 1];
};

struct key_reader {
	int sock; /* −1 = not started */
};

#define KEY_READER_INIT ((struct key_reader){ .sock = -1 })

/* One of file and command is NULL. */
int key_reader_start(const char *file, const char *command, struct key_reader *ret, struct err *e);
void key_reader_stop(struct key_reader *r);
/* Waits until the key is there or the command's time is over. */
int key_reader_read(struct key_reader *r, struct key *ret, struct err *e);

#endif
