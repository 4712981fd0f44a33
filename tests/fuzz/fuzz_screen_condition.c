/* Any pattern on any screen: accepted, or rejected with the parameter's name; matching terminates. */

#include "pty/screen.h"
#include "pty/screen_condition.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *pattern = mem_strndup((const char *)data, size);
	size_t n = strlen(pattern) + 1;
	struct screen *s = screen_new(10, 40, NULL);
	struct err e = ERR_INIT;
	struct screen_condition u;

	if (screen_condition_init(&u, NULL, pattern, &e) == 0) {
		if (n < size)
			screen_feed(s, data + n, size - n);
		screen_condition_check(&u, s);
		u.has_after = true;
		u.after = 1;
		screen_condition_check(&u, s);
		screen_condition_done(&u);
	} else if (strcmp(e.field, "until.regex") != 0 || !e.message[0]) {
		abort();
	}
	screen_free(s);
	return 0;
}
