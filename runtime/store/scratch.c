#include "runtime/store/scratch.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Address space, not memory or disk. 32-bit processes start with the smaller one. */
#define SCRATCH_MAP (64ull << 30)
#define SCRATCH_MAP_MIN (64ull << 20)
#define YIELD_PUTS 10000
#define YIELD_BYTES (4u << 20) /* of documents, before they are written to the table */

/* In the store's directory or, if that is not writable, in the one for temporary files. */
static int make_directory(struct store *store, struct scratch *c, char *path, size_t cap, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	const char *places[] = { store->dir, tmp && *tmp ? tmp : "/tmp" };

	for (size_t i = 0; i < countof(places); i++) {
		int n = snprintf(path, cap, "%s/" STORE_DIRS_SCRATCH "XXXXXX", places[i]);

		if (n < 0 || (size_t)n >= cap || !mkdtemp(path))
			continue;
		c->parent_fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (c->parent_fd < 0) {
			rmdir(path);
			continue;
		}
		snprintf(c->name, sizeof(c->name), "%s", strrchr(path, '/') + 1);
		return 0;
	}
	return err_sys(e, errno, "create a directory for the temporary models");
}

/* The map shrinks while the address space is too small for it, which the kernel reports as ENOMEM and valgrind as
 * EINVAL. */
static int open_env(const char *path, MDB_env **ret)
{
	uint64_t map = sizeof(size_t) > 4 ? SCRATCH_MAP : SCRATCH_MAP_MIN;

	for (;; map /= 4) {
		MDB_env *env;
		int rc = mdb_env_create(&env), fd;

		if (rc != 0)
			return rc;
		mdb_env_set_maxdbs(env, 1);
		mdb_env_set_mapsize(env, map);
		/* Not synced and not locked: no other process opens it, and after a crash it is deleted. */
		rc = mdb_env_open(env, path, MDB_NOSYNC | MDB_NOLOCK | MDB_NOTLS, 0600);
		if (rc == 0 && mdb_env_get_fd(env, &fd) == 0) {
			fd_cloexec(fd, true);
			*ret = env;
			return 0;
		}
		mdb_env_close(env);
		if ((rc != ENOMEM && rc != EINVAL) || map <= SCRATCH_MAP_MIN)
			return rc ? rc : EIO;
	}
}

int scratch_open(struct store *store, struct scratch *ret, struct err *e)
{
	struct scratch c = SCRATCH_INIT;
	char path[4096];
	int rc;

	if (make_directory(store, &c, path, sizeof(path), e) != 0)
		return -1;
	rc = open_env(path, &c.env);
	if (rc == 0)
		rc = mdb_txn_begin(c.env, NULL, 0, &c.models.txn);
	if (rc == 0)
		rc = mdb_dbi_open(c.models.txn, "models", MDB_CREATE, &c.models.dbi);
	if (rc != 0) {
		scratch_done(&c);
		return db_err(e, rc, "create the temporary models");
	}
	c.models.docs = c.docs = mem_zalloc(1, sizeof(*c.docs));
	*ret = c;
	return 0;
}

int scratch_flush(struct scratch *c, struct err *e) { return models_write_back(&c->models, e); }

/* A transaction that writes much makes LMDB keep all its dirty pages in memory. */
int scratch_yield(struct scratch *c, struct err *e)
{
	int rc;

	if (c->models.bytes >= YIELD_BYTES && scratch_flush(c, e) != 0)
		return -1;
	if (c->models.puts < YIELD_PUTS)
		return 0;
	c->models.puts = 0;
	rc = mdb_txn_commit(c->models.txn);
	c->models.txn = NULL;
	if (rc == 0)
		rc = mdb_txn_begin(c->env, NULL, 0, &c->models.txn);
	return rc == 0 ? 0 : db_err(e, rc, "write temporary models");
}

void scratch_done(struct scratch *c)
{
	models_release(&c->models);
	if (c->docs)
		docs_done(c->docs);
	free(c->docs);
	if (c->models.txn)
		mdb_txn_abort(c->models.txn);
	if (c->env)
		mdb_env_close(c->env);
	if (c->parent_fd >= 0)
		store_dirs_remove(c->parent_fd, c->name);
	fd_close(&c->parent_fd);
	*c = SCRATCH_INIT;
}
