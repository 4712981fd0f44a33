/* Lists of changes, as the runtime reads them after change_list_check has accepted them. */

#include "sandbox/change_list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	void *list = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	struct change c;
	size_t at = 0, sum = 0;
	if (!list)
		abort();
	memcpy(list, data, size);
	if (change_list_check(list, size, NULL) == 0)
		while (change_list_next(list, &at, &c)) {
			sum += c.path_len + c.note_len + c.diff_len;
			if (memchr(c.path, 0, c.path_len) || (c.diff_len && memchr(c.diff, 0, 0)) ||
			    !change_kind_name(c.kind))
				abort();
			if (!change_list_selects(c.path, c.path_len, c.path, c.path_len))
				abort();
		}
	if (sum > size)
		abort();
	free(list);
	return 0;
}
