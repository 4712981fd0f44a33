#include "supervisor/host/cow_errors.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"

#include <errno.h>
#include <string.h>

static int spawner_error(int error, struct err *e)
{
	if (error == EBUSY)
		return err_set(e, ERR_EXHAUSTED, "too many requests of this kind are under way; try again");
	if (error == ECONNRESET)
		return err_set(e, ERR_UNAVAILABLE,
			       "the spawner was restarted meanwhile: list the changes to see what was done");
	return err_sys(e, error, "read the changes");
}

int cow_copy_error(int error, uint64_t budget, struct err *e)
{
	if (error == COW_OVER_BUDGET)
		return err_set(
			e, ERR_EXHAUSTED,
			"checkpoints and forks of this user would exceed maxCheckpointBytesPerUid (%llu bytes): "
			"close sandboxes with checkpoints, discard the changes of closed forks (bailiff discard), "
			"or raise that limit in the daemon's config.json",
			(unsigned long long)budget);
	if (error == ENOENT)
		return err_set(
			e, ERR_STATE,
			"there is nothing to copy: the changes were applied, discarded or removed, or there were none");
	if (error == ENOSPC || error == EDQUOT)
		return err_set(e, ERR_EXHAUSTED, "no space is left for a copy of the changes");
	if (error == ELOOP)
		return err_set(e, ERR_STATE, "folders are nested too deep to be copied");
	return spawner_error(error, e);
}

static int nothing_to_undo(int error, struct err *e)
{
	return err_set(e, ERR_STATE, "%s",
		       error == EALREADY
			       ? "what can be undone of it is already undone"
			       : "there is nothing to undo: nothing of it was applied, or what was replaced is no "
				 "longer kept");
}

int cow_helper_error(enum change_op op, int error, struct err *e)
{
	if (op == CHANGE_OP_UNDO && (error == ENOENT || error == ENODATA || error == EALREADY))
		return nothing_to_undo(error, e);
	if (error == ESTALE)
		return err_set(e, ERR_CONFLICT,
			       "a write root is no longer the directory that it was when the run started: put that one "
			       "back at its path, or discard the changes");
	if (error == EPERM)
		return err_set(e, ERR_NOT_ALLOWED, "only the user who started it, or root, may do that");
	if (error == EBADMSG && op == CHANGE_OP_REVERT)
		return err_set(
			e, ERR_CORRUPT,
			"the report on what it changed was not made by this daemon's sandboxes, or was changed since");
	return spawner_error(error, e);
}

int cow_check_journal(const char *id, const struct change_list_undo *undo, struct err *e)
{
	if (!undo->damaged)
		return 0;
	return err_set(
		e, ERR_CORRUPT,
		"cow/%s/undo/%08u/journal in the daemon's state folder is damaged at byte %llu, so that nothing was "
		"undone: restore it from a backup, or copy the previous contents from its folder by hand",
		id, undo->damaged, (unsigned long long)undo->damaged_at);
}

void cow_write_undo(const struct change_list_undo *undo, struct jw *w)
{
	jw_kuint(w, "undoable", undo->applies);
	if (undo->error)
		jw_kstr(w, "undoLost",
			undo->error == EFBIG ? "it replaces more than is kept" : strerror((int)undo->error));
	if (undo->interrupted)
		jw_kbool(w, "interrupted", true);
}
