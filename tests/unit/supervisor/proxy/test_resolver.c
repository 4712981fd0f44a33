/* Lookups that hang do not keep others waiting. The test has a getaddrinfo of its own, which hangs for "slow…". */

#include "runtime/base/mem.h"
#include "supervisor/proxy/resolver.h"
#include "tests/unit/suite.h"

#include <event2/event.h>
#include <netdb.h>
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned begun; /* lookups that hang, or did */
static bool released;

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **ret)
{
	if (strncmp(name, "slow", 4) != 0)
		return EAI_NONAME;
	pthread_mutex_lock(&lock);
	begun++;
	pthread_cond_broadcast(&changed);
	while (!released)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return EAI_AGAIN;
}

static void wait_begun(unsigned n)
{
	pthread_mutex_lock(&lock);
	while (begun < n)
		pthread_cond_wait(&changed, &lock);
	ck_assert_uint_eq(begun, n);
	pthread_mutex_unlock(&lock);
}

static void release_all(void)
{
	pthread_mutex_lock(&lock);
	released = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static struct event_base *base;
static struct resolver *resolver;
static unsigned slow_answers, fast_answers;

static void setup(void)
{
	base = event_base_new();
	resolver = resolver_new(base);
}

static void teardown(void)
{
	release_all();
	resolver_free(resolver);
	event_base_free(base);
}

static void on_answer(void *ctx, int error, const struct net_address *addresses, size_t n)
{
	unsigned *count = ctx;
	ck_assert_int_eq(error, count == &slow_answers ? EAI_AGAIN : EAI_NONAME);
	++*count;
}

static struct lookup *ask(uint32_t uid, const void *sandbox, const char *name)
{
	const struct lookup_owner owner = { uid, sandbox };
	struct lookup *l = resolver_ask(resolver, &owner, name, on_answer,
					strncmp(name, "slow", 4) == 0 ? &slow_answers : &fast_answers);
	ck_assert_ptr_nonnull(l);
	return l;
}

static void answer_fast(uint32_t uid, const void *sandbox)
{
	unsigned before = fast_answers;
	ask(uid, sandbox, "fast.test");
	while (fast_answers == before)
		event_base_loop(base, EVLOOP_ONCE);
}

START_TEST(other_sandboxes_and_users_do_not_wait_for_lookups_that_hang)
{
	static const char one, two, three, other;
	for (int i = 0; i < 100; i++)
		ask(1000, &one, "slow.test");
	wait_begun(4);
	answer_fast(1000, &two);
	for (int i = 0; i < 100; i++)
		ask(1000, i % 2 ? &two : &three, "slow.test");
	wait_begun(8);
	answer_fast(1001, &other);
	ck_assert_uint_eq(slow_answers, 0);
	wait_begun(8);
	release_all();
	while (slow_answers < 200)
		event_base_loop(base, EVLOOP_ONCE);
	answer_fast(1000, &one);
}
END_TEST

START_TEST(one_user_cannot_fill_the_queue)
{
	static const char one, other;
	const struct lookup_owner owner = { 1000, &one };
	unsigned n = 0;
	while (n < 10000 && resolver_ask(resolver, &owner, "slow.test", on_answer, &slow_answers))
		n++;
	ck_assert_uint_lt(n, 10000);
	answer_fast(1001, &other);
}
END_TEST

START_TEST(a_cancelled_lookup_that_has_not_begun_is_forgotten)
{
	static const char one;
	struct lookup *l[20];
	for (int i = 0; i < 20; i++)
		l[i] = ask(1000, &one, "slow.test");
	wait_begun(4);
	for (int i = 0; i < 20; i++)
		lookup_cancel(l[i]);
	release_all();
	answer_fast(1000, &one);
	wait_begun(4);
	ck_assert_uint_eq(slow_answers, 0);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = { { "resolver", setup, teardown, 30,
					      SUITE_TESTS(other_sandboxes_and_users_do_not_wait_for_lookups_that_hang,
							  one_user_cannot_fill_the_queue,
							  a_cancelled_lookup_that_has_not_begun_is_forgotten) } };

	return suite_run_cases("resolver", cases, 1);
}
