#ifndef BAILIFF_CLI_COMPLETION_H
#define BAILIFF_CLI_COMPLETION_H

#include <stdbool.h>

struct buf;
struct verb_table;

/* Generates from the tables: "bash", "zsh" and "fish" scripts, and "man", the verbs' part of bailiff(1). */
bool completion_write(const struct verb_table *verbs, const char *kind, struct buf *out);

#endif
