/* The runtime's end of the link to the spawner; the test is the spawner. */

#include "supervisor/host/spawn_link.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
	struct event_base *base;
	struct spawn_link link;
	int spawner;            /* the test's end */
	unsigned changed, asks; /* reports received; further requests that the first report makes */
	int errors[16];
	char ids[16][8];
};

static struct spawn_msg changes_of(const char *id)
{
	struct spawn_msg m = { .kind = SPAWN_CHANGES };

	snprintf(m.key.id, sizeof m.key.id, "%s", id);
	return m;
}

static void on_changed(void *ctx, const struct spawn_msg *m)
{
	struct fixture *f = ctx;

	ck_assert_uint_lt(f->changed, countof(f->ids));
	snprintf(f->ids[f->changed], sizeof f->ids[0], "%.7s", m->key.id);
	f->errors[f->changed++] = m->error;
	for (; f->asks; f->asks--) {
		const struct spawn_msg next = changes_of("next");

		spawn_link_request(&f->link, &next, NULL, 0);
	}
}

static const struct spawn_link_events events = { .changed = on_changed };

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
}

static void end(struct fixture *f)
{
	spawn_link_done(&f->link);
	event_base_free(f->base);
	fd_close(&f->spawner);
}

/* The next request that the spawner receives, or "". */
static const char *take(struct fixture *f, struct spawn_msg *ret)
{
	memset(ret, 0, sizeof *ret);
	return recv(f->spawner, ret, sizeof *ret, MSG_DONTWAIT) == (ssize_t)sizeof *ret ? ret->key.id : "";
}

static void answer(struct fixture *f, const struct spawn_msg *asked)
{
	const struct spawn_msg m = { .kind = SPAWN_CHANGED, .key = asked->key };

	ck_assert_int_eq(fd_send(f->spawner, &m, sizeof m, NULL, 0, 0), 0);
}

START_TEST(requests_made_while_losses_are_reported_are_not_lost)
{
	const struct spawn_msg first = changes_of("first"), second = changes_of("second");
	struct spawn_msg got;
	struct fixture f;

	begin(&f);
	spawn_link_request(&f.link, &first, NULL, 0);
	spawn_link_request(&f.link, &second, NULL, 0);
	fd_close(&f.spawner);
	f.asks = 2;
	spawn_link_replace(&f.link, new_link(&f));
	ck_assert_uint_eq(f.changed, 2);
	ck_assert_str_eq(f.ids[0], "first");
	ck_assert_str_eq(f.ids[1], "second");
	ck_assert_int_eq(f.errors[0], ECONNRESET);
	for (int i = 0; i < 2; i++) {
		ck_assert_str_eq(take(&f, &got), "next");
		answer(&f, &got);
		event_base_loop(f.base, EVLOOP_NONBLOCK);
	}
	ck_assert_uint_eq(f.changed, 4);
	ck_assert_str_eq(f.ids[3], "next");
	ck_assert_int_eq(f.errors[3], 0);
	end(&f);
}
END_TEST

/* A request for peer files is answered elsewhere, so it is freed once it is sent, also if it is next in the list of
 * lost ones. */
START_TEST(a_request_that_was_sent_meanwhile_is_not_used_again)
{
	const struct spawn_msg first = changes_of("first");
	struct spawn_msg look = { .kind = SPAWN_PEER_FILES }, got;
	struct fixture f;

	begin(&f);
	spawn_link_request(&f.link, &first, NULL, 0);
	fd_close(&f.spawner);
	snprintf(look.key.id, sizeof look.key.id, "look");
	spawn_link_request(&f.link, &look, NULL, 0); /* cannot be sent: that spawner is dead */
	f.asks = 1;
	spawn_link_replace(&f.link, new_link(&f));
	ck_assert_uint_eq(f.changed, 1);
	ck_assert_str_eq(take(&f, &got), "look");
	ck_assert_str_eq(take(&f, &got), "next");
	ck_assert_str_eq(take(&f, &got), "");
	end(&f);
}
END_TEST

int main(void)
{
	return SUITE("spawn_link", requests_made_while_losses_are_reported_are_not_lost,
		     a_request_that_was_sent_meanwhile_is_not_used_again);
}
