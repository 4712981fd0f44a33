/* Root's authorisation on its way to the spawner, whose part the test plays. */

#include "supervisor/host/root_grant.h"

#include "runtime/base/fd.h"
#include "supervisor/host/spawn_link.h"
#include "tests/unit/suite.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENT 0 /* any descriptor */

struct fixture {
	struct event_base *base;
	struct spawn_link link;
	struct root_grants grants;
	int spawner; /* the test's end */
	unsigned settled;
};

static const struct spawn_link_events events = { 0 };

static void on_settled(void *ctx) { ((struct fixture *)ctx)->settled++; }

static int new_link(struct fixture *f)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	f->spawner = pair[1];
	return pair[0];
}

static void begin(struct fixture *f)
{
	*f = (struct fixture){ .base = event_base_new() };
	spawn_link_init(&f->link, new_link(f), &events, f);
	spawn_link_listen(&f->link, f->base);
	root_grants_init(&f->grants, f->base, &f->link);
	f->grants.settled = on_settled;
	f->grants.ctx = f;
	root_grants_request(&f->grants, CLIENT, "/work", sizeof "/work", true);
}

static void end(struct fixture *f)
{
	root_grants_done(&f->grants);
	spawn_link_done(&f->link);
	event_base_free(f->base);
	fd_close(&f->spawner);
}

/* Takes the request, as a spawner that handles it or as one that dies. */
static void take(struct fixture *f, bool handled)
{
	struct spawn_msg m;
	int fds[GRANT_FDS];
	size_t nfds = GRANT_FDS;

	ck_assert_int_eq(fd_recv(f->spawner, &m, sizeof m, fds, &nfds, MSG_DONTWAIT), (ssize_t)sizeof m);
	ck_assert_uint_eq(m.kind, SPAWN_GRANT);
	ck_assert_uint_eq(nfds, GRANT_FDS);
	if (handled)
		ck_assert_int_eq(write(fds[GRANT_FD_DONE], "", 1), 1);
	for (size_t i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
}

START_TEST(replies_wait_until_the_grant_is_handled)
{
	struct fixture f;

	begin(&f);
	ck_assert(root_grants_delay_reply(&f.grants, CLIENT));
	take(&f, true);
	ck_assert(!root_grants_delay_reply(&f.grants, CLIENT));
	ck_assert_uint_eq(f.settled, 1);
	end(&f);
}
END_TEST

START_TEST(a_grant_is_sent_again_if_the_spawner_dies)
{
	struct fixture f;

	begin(&f);
	take(&f, false);
	ck_assert(root_grants_delay_reply(&f.grants, CLIENT));
	ck_assert_uint_eq(f.settled, 0);
	take(&f, true); /* it was sent again */
	ck_assert(!root_grants_delay_reply(&f.grants, CLIENT));
	ck_assert_uint_eq(f.settled, 1);
	end(&f);
}
END_TEST

START_TEST(a_spawner_that_always_dies_does_not_block_replies)
{
	struct fixture f;

	begin(&f);
	for (int i = 0; i < 3; i++)
		take(&f, false);
	ck_assert(!root_grants_delay_reply(&f.grants, CLIENT));
	ck_assert_uint_eq(f.settled, 1);
	end(&f);
}
END_TEST

int main(void)
{
	return SUITE("root_grant", replies_wait_until_the_grant_is_handled, a_grant_is_sent_again_if_the_spawner_dies,
		     a_spawner_that_always_dies_does_not_block_replies);
}
