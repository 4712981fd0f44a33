#include "supervisor/control/attachment.h"

#include "runtime/base/mem.h"

#include <string.h>

/*
 * One list for all terminals instead of one for each: there are as many entries as there are windows that display a
 * terminal, and "newest first" is the only order that a decision needs. Nothing is stored. The entries refer to
 * connections, which do not survive the runtime either; a client that connects again must give its size again.
 */
struct attachment {
	TAILQ_ENTRY(attachment) entry;
	char *process_id;
	struct caller caller; /* only members that outlive the call; peer_fd is −1 */
	struct attachment_size size;
	enum attachment_policy policy;
};

void attachments_init(struct attachments *a) { TAILQ_INIT(&a->list); }

static void remove_one(struct attachments *a, struct attachment *at)
{
	TAILQ_REMOVE(&a->list, at, entry);
	free(at->process_id);
	free(at);
}

void attachments_done(struct attachments *a)
{
	while (!TAILQ_EMPTY(&a->list))
		remove_one(a, TAILQ_FIRST(&a->list));
}

void attachment_remove(struct attachments *a, const char *process_id, uint64_t connection)
{
	struct attachment *at;

	TAILQ_FOREACH (at, &a->list, entry)
		if (at->caller.connection == connection && strcmp(at->process_id, process_id) == 0) {
			remove_one(a, at);
			return;
		}
}

/* A repeated request replaces the connection's entry and makes it the newest. */
bool attachment_put(struct attachments *a, const char *process_id, const struct caller *c, struct attachment_size size,
		    enum attachment_policy policy)
{
	struct attachment *at;
	unsigned have = 0;

	attachment_remove(a, process_id, c->connection);
	TAILQ_FOREACH (at, &a->list, entry)
		have += at->caller.connection == c->connection;
	if (have >= ATTACHMENTS_MAX)
		return false;
	at = mem_zalloc(1, sizeof(*at));
	at->process_id = mem_strdup(process_id);
	at->caller = (struct caller){
		.uid = c->uid, .gid = c->gid, .pid = c->pid, .role = c->role, .connection = c->connection, .peer_fd = -1
	};
	at->size = size;
	at->policy = policy;
	TAILQ_INSERT_HEAD(&a->list, at, entry);
	return true;
}

static bool decides_size(const struct attachment *at, const char *process_id)
{
	return at->policy != ATTACHMENT_KEEP && strcmp(at->process_id, process_id) == 0;
}

bool attachment_any(const struct attachments *a, const char *process_id)
{
	const struct attachment *at;

	TAILQ_FOREACH (at, &a->list, entry)
		if (strcmp(at->process_id, process_id) == 0)
			return true;
	return false;
}

/* The newest display that takes part in this terminal's size, or NULL. The list is ordered, newest first. */
static const struct attachment *find_newest(const struct attachments *a, const char *process_id)
{
	const struct attachment *at;

	TAILQ_FOREACH (at, &a->list, entry)
		if (decides_size(at, process_id))
			return at;
	return NULL;
}

/* "smallest" is the minimum of each dimension on its own: the result may be the size of no display. */
bool attachment_size(const struct attachments *a, const char *process_id, struct attachment_size *ret)
{
	const struct attachment *first = find_newest(a, process_id), *at;
	struct attachment_size size;

	if (!first)
		return false;
	size = first->size;
	if (first->policy == ATTACHMENT_SMALLEST)
		TAILQ_FOREACH (at, &a->list, entry) {
			if (!decides_size(at, process_id))
				continue;
			if (at->size.rows < size.rows)
				size.rows = at->size.rows;
			if (at->size.cols < size.cols)
				size.cols = at->size.cols;
		}
	*ret = size;
	return true;
}

static struct attachment *of_connection(const struct attachments *a, uint64_t connection)
{
	struct attachment *at;

	TAILQ_FOREACH (at, &a->list, entry)
		if (at->caller.connection == connection)
			return at;
	return NULL;
}

void attachment_gone(struct attachments *a, uint64_t connection, attachment_fn fn, void *ctx)
{
	struct attachment *at;

	while ((at = of_connection(a, connection))) { /* restart each time: fn may change the list */
		struct attachment_size before, size;
		mem_auto char *process_id = mem_strdup(at->process_id);
		bool had = attachment_size(a, process_id, &before);

		remove_one(a, at);
		if (had && attachment_size(a, process_id, &size) &&
		    (size.rows != before.rows || size.cols != before.cols)) {
			const struct caller by = find_newest(a, process_id)->caller;

			fn(ctx, process_id, &by, size);
		}
	}
}
