/* The descriptors of a process that the engine releases during a report. The test replaces the engine's functions for
 * two of the reports (the linker's --wrap). */

#include "supervisor/host/process_io.h"

#include "runtime/engine/core/engine.h"
#include "supervisor/host/host_ports.h"
#include "tests/unit/suite.h"

#include <event2/event.h>
#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#define ID "proc_test"

static struct host_ports host;
static unsigned ready, gone;

void __wrap_engine_on_ready(struct engine *g, const char *id, uint32_t layers);
void __wrap_engine_on_gone(struct engine *g, const char *id, const struct status_msg *last);

/* Frees the process_io, as if the process ended during the report. */
void __wrap_engine_on_ready(struct engine *g, const char *id, uint32_t layers)
{
	ready++;
	host_ports_table.release(&host, ID, 0);
}

void __wrap_engine_on_gone(struct engine *g, const char *id, const struct status_msg *last) { gone++; }

static void begin(int status[2], int dead[2])
{
	const struct port_streams names = { 0 };
	const struct status_msg m = { .kind = STATUS_READY };

	ready = gone = 0;
	mallopt(M_PERTURB, 165); /* freed memory changes, so that its use is noticed */
	host_ports_init(&host, event_base_new(), NULL, -1, -1, -1, -1);
	struct process_io *h = process_io_new(&host, ID, &names);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status), 0);
	ck_assert_int_eq(pipe(dead), 0);
	h->fds[GUARD_SLOT_STATUS] = status[0];
	h->fds[GUARD_SLOT_PIDFD] = dead[0];
	process_io_watch(h);
	for (int i = 0; i < 2; i++) /* the second must not be read */
		ck_assert_int_eq(send(status[1], &m, sizeof m, 0), sizeof m);
}

static void end(int status[2], int dead[2])
{
	event_base_loop(host.base, EVLOOP_NONBLOCK);
	ck_assert_uint_eq(ready, 1);
	ck_assert_uint_eq(gone, 0);
	ck_assert_uint_eq(host.process_ios.count, 0);
	close(status[1]);
	if (dead[1] >= 0)
		close(dead[1]);
	host_ports_done(&host);
	event_base_free(host.base);
}

START_TEST(a_report_can_free_the_process_io)
{
	int status[2], dead[2];

	begin(status, dead);
	end(status, dead);
}
END_TEST

/* The end of the init is noticed first; its earlier messages are read then. */
START_TEST(a_report_of_an_ended_init_can_free_the_process_io)
{
	int status[2], dead[2];

	begin(status, dead);
	struct process_io *h = strmap_get(&host.process_ios, ID);
	event_del(h->status_ev);
	close(dead[1]);
	dead[1] = -1;
	end(status, dead);
}
END_TEST

int main(void)
{
	return SUITE("process_io", a_report_can_free_the_process_io, a_report_of_an_ended_init_can_free_the_process_io);
}
