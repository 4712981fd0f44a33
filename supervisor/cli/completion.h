#ifndef BAILIFF_CLI_COMPLETION_H
#define BAILIFF_CLI_COMPLETION_H

#include <stdbool.h>

struct buf;

/* What is generated from the tables: "bash", "zsh" and "fish" scripts, and "man", the verbs' part of bailiff(1). */
bool completion_write(const char *kind, struct buf *out);

#endif
