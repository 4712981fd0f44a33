/* Which command of a session sandbox a denial belongs to. process_io.c's reporters call it. */

#include "supervisor/host/host_ports.h"
#include "supervisor/host/process_io.h"
#include "supervisor/spawner/proc_stat.h"

#include <string.h>

struct members {
	const struct process_io *holder;
	struct process_io *only;
	int32_t leader; /* the member with this leader is searched; 0 = any */
	size_t count;
};

static void count_member(void *ctx, const char *id, void *value)
{
	struct members *m = ctx;
	struct process_io *io = value;

	if (strcmp(io->within, m->holder->key.id) != 0 || (m->leader && io->pid != m->leader))
		return;
	m->only = io;
	m->count++;
}

struct process_io *process_io_blamed(struct process_io *io, int32_t pid, int32_t parent)
{
	struct members m = { .holder = io };

	if (!io->host->members)
		return io;
	strmap_each(&io->host->process_ios, count_member, &m);
	if (m.count <= 1)
		return m.count ? m.only : io;
	int32_t alive = proc_parent(pid);
	for (pid = alive ? alive : parent; pid > 1 && pid != io->pid; pid = proc_parent(pid)) {
		m = (struct members){ .holder = io, .leader = pid };
		strmap_each(&io->host->process_ios, count_member, &m);
		if (m.count)
			return m.only;
	}
	return io;
}
