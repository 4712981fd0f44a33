#include "supervisor/spawner/spawn_msg.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/change_list.h"
#include "supervisor/spawner/peer_files.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define START_FLAGS                                                                                                  \
	((uint32_t)(PLAN_KEEP_TREE | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE | PLAN_PRIVATE_ROOT | PLAN_COW | PLAN_TTY | \
		    PLAN_COW_COPY | PLAN_HOLDER))
#define LIMIT_FLAGS (START_FLAGS | PLAN_MEMBER)

/* A message kind without a row is rejected. */
static const struct {
	enum spawn_kind kind;
	bool has_key;
	bool has_fds;
} permitted[] = {
	{ SPAWN_START, true, true },      { SPAWN_SYNC, false, false },  { SPAWN_CLEAN, true, false },
	{ SPAWN_MARK, false, false },     { SPAWN_CHANGES, true, true }, { SPAWN_PEER_FILES, false, true },
	{ SPAWN_ANNOUNCE, false, false }, { SPAWN_GRANT, false, true },  { SPAWN_LIMIT, true, true },
};

static size_t start_fds(const struct spawn_msg *m)
{
	size_t n = 3 + !m->plan_len;
	return m->flags & PLAN_TTY ? n : n + 1 + !(m->flags & PLAN_STDERR_MERGE) + !!(m->flags & PLAN_STDIN_PIPE);
}

static size_t expected_fds(const struct spawn_msg *m)
{
	if (m->kind == SPAWN_CHANGES)
		return 2 + change_op_needs_client((enum change_op)m->op) + (m->op == CHANGE_OP_REVERT);
	if (m->kind == SPAWN_PEER_FILES)
		return PEER_FILES_FDS;
	if (m->kind == SPAWN_GRANT)
		return GRANT_FDS;
	if (m->kind == SPAWN_LIMIT)
		return 2 + !m->plan_len;
	return start_fds(m);
}

int grant_read(int fd, struct buf *out, struct err *e)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK) ||
	    fstat(fd, &st) < 0)
		return err_field(e, "paths", "are not in a sealed memfd");
	if (st.st_size > (off_t)GRANT_BYTES_MAX)
		return err_field(e, "paths", "have more than %u bytes", GRANT_BYTES_MAX);
	ssize_t n = pread(fd, buf_reserve(out, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
	if (n != (ssize_t)st.st_size || (n && out->data[n - 1]))
		return err_field(e, "paths", "do not end with a NUL");
	out->len = (size_t)n;
	return 0;
}

int spawn_msg_check(const void *message, size_t len, size_t nfds, struct err *e)
{
	struct spawn_msg m;
	if (len < sizeof m)
		return err_set(e, ERR_INVALID, "a message of %zu bytes from the runtime", len);
	memcpy(&m, message, sizeof m);
	const bool planned = m.kind == SPAWN_START || m.kind == SPAWN_LIMIT;
	if (m.plan_len > SPAWN_INLINE_MAX || len != sizeof m + m.plan_len || (m.plan_len && !planned))
		return err_set(e, ERR_INVALID, "a message of %zu bytes from the runtime", len);
	for (size_t i = 0; i < countof(permitted); i++) {
		if (permitted[i].kind != m.kind)
			continue;
		if (planned ? m.flags & ~(m.kind == SPAWN_START ? START_FLAGS : LIMIT_FLAGS) : m.flags)
			return err_set(e, ERR_INVALID, "a message of the runtime's with unknown flags");
		if (m.kind == SPAWN_CHANGES && m.op >= CHANGE_OP_COUNT)
			return err_set(e, ERR_INVALID, "a message of the runtime's that asks for an unknown operation");
		if (m.kind == SPAWN_PEER_FILES && m.op >= PEER_FILES_OP_COUNT)
			return err_set(e, ERR_INVALID, "a message of the runtime's that asks for an unknown file");
		if (nfds != (permitted[i].has_fds ? expected_fds(&m) : 0))
			return err_set(e, ERR_INVALID, "a message of the runtime's with %zu descriptors", nfds);
		if (permitted[i].has_key &&
		    (!plan_key_valid(&m.key) || (m.kind == SPAWN_LIMIT && !plan_key_valid(&m.holder))))
			return err_set(e, ERR_INVALID, "a message of the runtime's with a bad key");
		return 0;
	}
	return err_set(e, ERR_INVALID, "a message of an unknown kind (%u) from the runtime", m.kind);
}
