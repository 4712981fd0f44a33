#include "sandbox/status.h"

#include <stdio.h>
#include <string.h>

#define PATH_SHOWN 57u /* bytes, as in the text below; of a longer path its end */

static const char *const causes[] = {
	[STATUS_CAUSE_LEADER] = "its leader was killed or stopped",
	[STATUS_CAUSE_CLOSED] = "its session sandbox was closed",
	[STATUS_CAUSE_MOUNTS] = "its session sandbox ended: %s%.57s was replaced on the host; use a new one",
	[STATUS_CAUSE_HIDDEN] = "its session sandbox ended: %s%.57s is hidden and now exists; use a new one",
	[STATUS_CAUSE_LINK] = "its session sandbox ended: it can receive no more commands; use a new one",
	[STATUS_CAUSE_ORPHANS] = "its session sandbox ended: processes in it forked faster than they could be killed",
};

bool status_cause_text(const struct status_msg *m, char ret[STATUS_CAUSE_TEXT])
{
	const char *text = m->cause < sizeof causes / sizeof causes[0] ? causes[m->cause] : NULL;

	if (m->kind != STATUS_EXITED || !text)
		return false;
	if (m->cause != STATUS_CAUSE_MOUNTS && m->cause != STATUS_CAUSE_HIDDEN) {
		snprintf(ret, STATUS_CAUSE_TEXT, "%s", text);
		return true;
	}
	const char *path = m->path[0] ? m->path : "a path";
	size_t n = strlen(path), skipped = n > PATH_SHOWN ? n - PATH_SHOWN : 0;
	while (skipped && ((unsigned char)path[skipped] & 0xc0) == 0x80) /* the rest of a character */
		skipped++;
	snprintf(ret, STATUS_CAUSE_TEXT, text, skipped ? "…" : "", path + skipped);
	return true;
}
