#include "policy/transparent_options.h"

#include "policy/args.h"
#include "runtime/base/mem.h"

#include <ctype.h>
#include <string.h>

static const struct {
	const char *names, *letters, *longs;
} rows[] = {
#define TRANSPARENT_OPTIONS(names, letters, longs) { names, letters, longs },
#include "policy/transparent_options.def"
#undef TRANSPARENT_OPTIONS
};

bool transparent_option(const char *program, char letter, const char *name, size_t n)
{
	if (!name && isdigit((unsigned char)letter))
		return true;
	for (size_t i = 0; i < countof(rows); i++)
		if (args_named(program, rows[i].names))
			return name ? args_word_in(rows[i].longs, name, n) : strchr(rows[i].letters, letter) != NULL;
	return false;
}
