/* The profiles of a policy file: accepted as a whole and compilable, or rejected with a message that names the file. */

#include "policy/profiles.h"
#include "runtime/base/err.h"
#include "sandbox/profile.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct profile_paths place = { .cwd = "/w/x", .home = "/home/a", .workspace = "/w" };
	struct policy_profiles s = { 0 };
	struct err e = ERR_INIT;

	if (policy_profiles_parse(&s, "F", (const char *)data, size, &e) < 0) {
		if (e.code != ERR_INVALID || strncmp(e.message, "F: ", 3) != 0 || s.count)
			abort();
		return 0;
	}
	for (size_t i = 0; i < s.count; i++) {
		struct profile p;
		struct err why = ERR_INIT;

		if (policy_profiles_get(&s, s.profile[i]->name, &p, &why) < 0)
			abort();
		if (profile_expand(&p, &place, &why) == 0)
			(void)profile_compile(&p, &place, &why);
		profile_done(&p);
	}
	policy_profiles_done(&s);
	return 0;
}
