#ifndef BAILIFF_BASE_BANNED_H
#define BAILIFF_BASE_BANNED_H

/* Forced into every file by the Makefile (-include): functions that have no safe use here. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf gets system popen strtok tmpnam mktemp strncpy strncat

#endif
