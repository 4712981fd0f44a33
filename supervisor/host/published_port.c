#include "supervisor/host/published_port.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/host/process_io.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>

/* −1 with errno. */
static int connect_init(struct process_io *io)
{
	const struct status_msg m = { .kind = STATUS_DIALER };
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	fd_auto int proxy_end = ends[0], init_end = ends[1];
	if (fd_send(io->fds[GUARD_SLOT_STATUS], &m, sizeof m, &init_end, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return -1;
	io->ports = mem_zalloc(1, sizeof *io->ports);
	io->ports->dialer_fd = fd_take(&proxy_end);
	LIST_INIT(&io->ports->list);
	return 0;
}

int published_port_add(struct process_io *io, const struct port_publication *given)
{
	if (io->gone || io->fds[GUARD_SLOT_STATUS] < 0) {
		errno = ESRCH;
		return -1;
	}
	if (published_port_find(io, given->port)) {
		errno = EEXIST;
		return -1;
	}
	if (!io->ports && connect_init(io) < 0)
		return -1;
	struct published_port *p = mem_zalloc(1, sizeof *p);
	snprintf(p->address, sizeof p->address, "%s", given->address);
	p->port = given->port;
	p->host_port = given->host_port;
	LIST_INSERT_HEAD(&io->ports->list, p, link);
	return 0;
}

int published_port_end(struct process_io *io, uint16_t port)
{
	struct published_port *p = published_port_find(io, port);

	if (!p)
		return 1;
	if (!p->sent) {
		published_port_remove(p);
		return 1;
	}
	p->ending = true;
	return 0;
}

struct published_port *published_port_find(const struct process_io *io, uint32_t port)
{
	struct published_port *p = io->ports ? LIST_FIRST(&io->ports->list) : NULL;

	while (p && p->port != port)
		p = LIST_NEXT(p, link);
	return p;
}

void published_port_remove(struct published_port *p)
{
	LIST_REMOVE(p, link);
	free(p);
}

bool published_ports_known(const struct process_io *io)
{
	struct published_port *p = io->ports ? LIST_FIRST(&io->ports->list) : NULL;

	while (p && !p->sent)
		p = LIST_NEXT(p, link);
	return p;
}

void published_ports_free(struct process_io *io)
{
	struct published_port *p;

	if (!io->ports)
		return;
	while ((p = LIST_FIRST(&io->ports->list)))
		published_port_remove(p);
	fd_close(&io->ports->dialer_fd);
	free(io->ports);
	io->ports = NULL;
}
