/* The port against a real nats-server on loopback; skipped if it is not installed. */

#include "supervisor/fleet/fleet_port.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_key.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t server;
static char folder[] = "/tmp/bailiff-nats-XXXXXX", url[64];
static struct fleet_port *a, *b;

/* The server writes the port that it chose to a file of this folder. */
static bool read_port(void)
{
	mem_auto char *path = mem_printf("%s/nats-server_%d.ports", folder, (int)server);
	char text[512] = "";
	FILE *f = fopen(path, "re");
	const char *at;

	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	at = n ? strstr(text, "nats://") : NULL;
	return at && sscanf(at, "%63[^\"]", url) == 1 && strchr(at, '"');
}

static void start_server(void)
{
	if (!mkdtemp(folder))
		exit(1);
	server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("nats-server", "nats-server", "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", folder,
		       "--ports_file_dir", folder, "-l", "/dev/null", NULL);
		_exit(127);
	}
	while (!read_port())
		if (waitpid(server, NULL, WNOHANG) != 0)
			exit(1);
		else
			poll(NULL, 0, 10);
}

static struct fleet_port *connect_port(const char *name)
{
	struct fleet_port *p = NULL;
	struct err e = ERR_INIT;
	struct fleet_nats_options o = { .url = url, .name = name };

	ck_assert_msg(fleet_nats_new(&o, &p, &e) == 0, "%s", e.message);
	return p;
}

static void setup(void)
{
	a = connect_port("a");
	b = connect_port("b");
}

static void teardown(void)
{
	a->ops->free(a);
	b->ops->free(b);
}

static void text_of(struct buf *b_, const char *s)
{
	buf_reset(b_);
	buf_str(b_, s);
}

START_TEST(a_document_changes_only_from_the_last_revision)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t r1 = 0, r2 = 0, r3 = 0;

	ck_assert_int_eq(a->ops->get_task(a, "t1", &text, &r1, &e), 1);
	text_of(&text, "one");
	ck_assert_int_eq(a->ops->create_task(a, "t1", &text, &r1, &e), 0);
	ck_assert_int_eq(b->ops->create_task(b, "t1", &text, &r2, &e), 1);
	text_of(&text, "two");
	ck_assert_int_eq(b->ops->update_task(b, "t1", &text, r1, &r2, &e), 0);
	ck_assert_uint_gt(r2, r1);
	ck_assert_int_eq(a->ops->update_task(a, "t1", &text, r1, &r3, &e), 1);
	ck_assert_int_eq(a->ops->get_task(a, "t1", &text, &r3, &e), 0);
	ck_assert_str_eq(buf_cstr(&text), "two");
	ck_assert_uint_eq(r3, r2);
	ck_assert_msg(a->ops->remove_task(a, "t1", &e) == 0, "%s", e.message);
	ck_assert_int_eq(b->ops->get_task(b, "t1", &text, &r3, &e), 1);
	ck_assert_int_eq(b->ops->create_task(b, "t1", &text, &r3, &e), 0);
	ck_assert_uint_gt(r3, r2);
}
END_TEST

START_TEST(a_record_changes_only_from_the_last_revision)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t revision = 0;

	ck_assert_int_eq(a->ops->get_record(a, "k1", &text, &revision, &e), 1);
	text_of(&text, "one");
	ck_assert_int_eq(a->ops->put_record(a, "k1", &text, 0, &e), 0);
	ck_assert_int_eq(b->ops->put_record(b, "k1", &text, 0, &e), 1);
	ck_assert_int_eq(b->ops->get_record(b, "k1", &text, &revision, &e), 0);
	text_of(&text, "two");
	ck_assert_int_eq(b->ops->put_record(b, "k1", &text, revision, &e), 0);
	ck_assert_int_eq(a->ops->put_record(a, "k1", &text, revision, &e), 1);
}
END_TEST

START_TEST(a_task_has_one_message_and_one_receiver)
{
	struct buf buf_auto needs = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_message m, none;

	text_of(&needs, "{}");
	ck_assert_msg(a->ops->put_class(a, "c1", 5, &needs, &e) == 0, "%s", e.message);
	ck_assert_int_eq(b->ops->put_class(b, "c1", 5, &needs, &e), 0);
	ck_assert_int_eq(a->ops->enqueue(a, "c1", 5, "q1", 1, &e), 0);
	ck_assert_int_eq(a->ops->enqueue(a, "c1", 5, "q1", 2, &e), 1);
	ck_assert_msg(a->ops->fetch(a, "c1", 5, &m, &e) == 0, "%s", e.message);
	ck_assert_str_eq(m.task, "q1");
	ck_assert_int_eq(b->ops->fetch(b, "c1", 5, &none, &e), 1);
	ck_assert_int_eq(a->ops->keep(a, &m, &e), 0);
	ck_assert_int_eq(a->ops->put_back(a, &m, 0, &e), 0);
	while (b->ops->fetch(b, "c1", 5, &m, &e) != 0)
		poll(NULL, 0, 10);
	ck_assert_int_eq(a->ops->enqueue(a, "c1", 5, "q1", 2, &e), 1);
	ck_assert_int_eq(b->ops->acknowledge(b, &m, &e), 0);
	ck_assert_int_eq(a->ops->enqueue(a, "c1", 5, "q1", 2, &e), 0);
}
END_TEST

static void count(void *ctx, const char *key, const char *value, size_t len, uint64_t revision) { ++*(int *)ctx; }

/* There are more entries than are requested at a time; the sum of the values shows that each was listed once. */
static void add_value(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	if (strncmp(key, "many-", 5) == 0 && atoi(key + 5) == atoi(value) && revision)
		*(int *)ctx += atoi(value);
}

/* Reads a document while the list is read, as a renewal does. */
static void add_and_read(void *ctx, const char *key, const char *value, size_t len, uint64_t revision)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t now = 0;

	add_value(ctx, key, value, len, revision);
	ck_assert_msg(b->ops->get_task(b, key, &text, &now, &e) == 0, "%s", e.message);
	ck_assert_uint_eq(now, revision);
	ck_assert(text.len == len && memcmp(text.data, value, len) == 0);
}

START_TEST(many_entries_are_listed_once)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t revision;
	int sum = 0;

	for (int i = 1; i <= 200; i++) {
		char id[32];

		snprintf(id, sizeof(id), "many-%d", i);
		text_of(&text, id + 5);
		ck_assert_int_eq(a->ops->create_task(a, id, &text, &revision, &e), 0);
	}
	ck_assert_msg(b->ops->list_tasks(b, add_value, &sum, &e) == 0, "%s", e.message);
	ck_assert_int_eq(sum, 200 * 201 / 2);
	sum = 0;
	ck_assert_msg(b->ops->list_tasks(b, add_and_read, &sum, &e) == 0, "%s", e.message);
	ck_assert_int_eq(sum, 200 * 201 / 2);
}
END_TEST

START_TEST(entries_are_listed)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t revision = 0, other = 0, stored = 0;
	int n = 0;

	ck_assert_int_eq(a->ops->list_nodes(a, count, &n, &e), 0);
	ck_assert_int_eq(n, 0);
	text_of(&text, "{}");
	ck_assert_int_eq(a->ops->get_node(a, "n1", &text, &revision, &e), 1);
	ck_assert_int_eq(a->ops->put_node(a, "n1", &text, 0, &revision, &e), 0);
	ck_assert_int_eq(b->ops->put_node(b, "n1", &text, 0, &other, &e), 1);
	ck_assert_int_eq(b->ops->put_node(b, "n1", &text, revision + 1, &other, &e), 1);
	ck_assert_int_eq(b->ops->get_node(b, "n1", &text, &other, &e), 0);
	ck_assert_uint_eq(other, revision);
	ck_assert_int_eq(b->ops->put_node(b, "n1", &text, revision, &other, &e), 0);
	ck_assert_uint_gt(other, revision);
	ck_assert_int_eq(b->ops->put_node(b, "n2", &text, 0, &other, &e), 0);
	ck_assert_int_eq(b->ops->node_stored_at(b, "n2", &stored, &e), 0);
	ck_assert_int_lt(llabs((long long)(clock_real_us() / 1000 - stored)), 60000);
	ck_assert_int_eq(b->ops->node_stored_at(b, "n3", &stored, &e), 1);
	ck_assert_int_eq(a->ops->list_nodes(a, count, &n, &e), 0);
	ck_assert_int_eq(n, 2);
}
END_TEST

struct asker {
	struct buf answer;
	struct err err;
	int result;
};

/* Port b belongs to this thread while it runs. */
static void *ask(void *arg)
{
	struct asker *asker = arg;
	struct buf buf_auto text = BUF_INIT;

	text_of(&text, "hello");
	while ((asker->result = b->ops->request(b, "n1", "output", &text, 1000, &asker->answer, &asker->err)) == 1)
		;
	return NULL;
}

START_TEST(a_request_is_answered)
{
	struct buf buf_auto text = BUF_INIT, answer = BUF_INIT;
	struct err e = ERR_INIT;
	struct fleet_incoming r;
	struct asker asker = { .answer = BUF_INIT, .err = ERR_INIT };
	pthread_t thread;

	text_of(&text, "hello");
	ck_assert_int_eq(b->ops->request(b, "n9", "output", &text, 500, &answer, &e), 1);
	ck_assert_int_eq(a->ops->serve(a, "n1", &e), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, ask, &asker), 0);
	while (a->ops->next_request(a, &r) != 0) {
		struct pollfd p = { .fd = a->ops->wake_fd(a), .events = POLLIN };

		poll(&p, 1, 1000);
		a->ops->take_wake(a);
	}
	ck_assert_str_eq(r.verb, "output");
	ck_assert_str_eq(r.data, "hello");
	free(r.data);
	ck_assert_int_eq(a->ops->reply(a, r.reply, "world", 5, &e), 0);
	pthread_join(thread, NULL);
	ck_assert_msg(asker.result == 0, "%s", asker.err.message);
	ck_assert_str_eq(buf_cstr(&asker.answer), "world");
	buf_done(&asker.answer);
}
END_TEST

START_TEST(stored_messages_are_found)
{
	struct buf buf_auto text = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(a->ops->get_stored(a, FLEET_BLOB_SUBJECT "ab.0", &text, &e), 1);
	ck_assert_msg(a->ops->store(a, FLEET_BLOB_SUBJECT "ab.0", "x", 1, &e) == 0, "%s", e.message);
	ck_assert_int_eq(b->ops->get_stored(b, FLEET_BLOB_SUBJECT "ab.0", NULL, &e), 0);
	ck_assert_int_eq(b->ops->get_stored(b, FLEET_BLOB_SUBJECT "ab.1", NULL, &e), 1);
	ck_assert_int_eq(b->ops->get_stored(b, FLEET_BLOB_SUBJECT "ab.0", &text, &e), 0);
	ck_assert_str_eq(buf_cstr(&text), "x");
}
END_TEST

/* A server without authentication sends no nonce: the signed text is always the same, and need not be sent. */
START_TEST(a_key_whose_signature_begins_with_zero_can_connect)
{
	mem_auto char *path = mem_printf("%s/seed", folder);
	char seed[FLEET_SEED_TEXT], key[FLEET_KEY_TEXT], signature[FLEET_SIGNATURE];
	struct fleet_nats_options o = { .url = url, .name = "c", .creds = path };
	struct fleet_port *p = NULL;
	struct err e = ERR_INIT;

	do {
		ck_assert_int_eq(fleet_key_new(seed, key, &e), 0);
		ck_assert_int_eq(fleet_key_sign(seed, "", 0, signature, &e), 0);
	} while (signature[0] != 'A' || signature[1] < 'A' || signature[1] > 'P'); /* eight zero bits */
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_eq(write(fd, seed, strlen(seed)), (ssize_t)strlen(seed));
	ck_assert_msg(fleet_nats_new(&o, &p, &e) == 0, "%s", e.message);
	p->ops->free(p);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "port", setup, teardown, 120,
		  SUITE_TESTS(a_document_changes_only_from_the_last_revision,
			      a_record_changes_only_from_the_last_revision, a_task_has_one_message_and_one_receiver,
			      entries_are_listed, a_request_is_answered, stored_messages_are_found,
			      many_entries_are_listed_once, a_key_whose_signature_begins_with_zero_can_connect) },
	};
	int r;

	if (access("/usr/sbin/nats-server", X_OK) != 0 && access("/usr/bin/nats-server", X_OK) != 0) {
		puts("nats-server is not installed");
		return 77;
	}
	start_server();
	r = suite_run_cases("fleet_nats", cases, 1);
	kill(server, SIGKILL);
	while (waitpid(server, NULL, 0) < 0)
		;
	mem_auto char *remove = mem_printf("%s", folder);
	if (fork() == 0)
		execlp("rm", "rm", "-rf", remove, NULL);
	wait(NULL);
	return r;
}
