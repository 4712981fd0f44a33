#ifndef BAILIFF_TESTS_SIM_THREADS_H
#define BAILIFF_TESTS_SIM_THREADS_H

/*
 * The threads of the store as coroutines, and the clock and the random bytes of the process, all from one seed: a
 * history can be repeated exactly, and a handover costs no context switch. The functions of libc are replaced for the
 * whole program, so the store's own code runs unchanged.
 *
 * Only one thread runs. The others run when it waits, and sometimes when it has released its last lock, as if they had
 * been faster. A wait that only time can end moves the monotonic clock.
 */

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define THREADS 8u /* the first one is the program's */
#define THREAD_STACK (1u << 20)
#define THREAD_YIELDS 8u /* one of so many times that the last lock is released */

struct sim_thread {
	ucontext_t context;
	char *stack;
	void *(*fn)(void *arg);
	void *arg;
	bool used, done, detached;
	pthread_cond_t *waits; /* NULL = it can run */
	uint64_t until;
};

static struct {
	struct sim_thread all[THREADS];
	unsigned current, held, readers; /* locks of the first thread; readers of any rwlock */
	uint64_t seed, mono_ns, real_us; /* real_us 0 = the simulation has not begun: the system's clock and bytes */
} threads = { .all[0].used = true };

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- scheduling ---- */

static bool thread_ready(const struct sim_thread *t)
{
	return t->used && !t->done && (!t->waits || t->until <= threads.mono_ns);
}

static bool thread_switch(void)
{
	const unsigned from = threads.current;

	for (unsigned i = 1; i < THREADS; i++) {
		const unsigned to = (from + i) % THREADS;

		if (thread_ready(&threads.all[to])) {
			threads.current = to;
			swapcontext(&threads.all[from].context, &threads.all[to].context);
			return true;
		}
	}
	return false;
}

/* The first of the times that threads wait for; UINT64_MAX if there is none. */
static uint64_t thread_first_due(void)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < THREADS; i++)
		if (threads.all[i].used && !threads.all[i].done && threads.all[i].waits && threads.all[i].until < first)
			first = threads.all[i].until;
	return first;
}

/* Nothing can run before that time. */
static void thread_pass_time(void)
{
	const uint64_t first = thread_first_due();

	if (first == UINT64_MAX) {
		fprintf(stderr, "every thread waits for another\n");
		abort();
	}
	threads.mono_ns = first;
}

static int thread_wait(pthread_cond_t *cond, uint64_t until)
{
	struct sim_thread *t = &threads.all[threads.current];

	t->waits = cond;
	t->until = until;
	while (t->waits && t->until > threads.mono_ns)
		if (!thread_switch())
			thread_pass_time();
	const bool timed_out = t->waits != NULL;
	t->waits = NULL;
	return timed_out ? ETIMEDOUT : 0;
}

static void thread_wake(const pthread_cond_t *cond, unsigned most)
{
	for (unsigned i = 0; i < THREADS && most; i++)
		if (threads.all[i].waits == cond) {
			threads.all[i].waits = NULL;
			most--;
		}
}

static void thread_main(unsigned number)
{
	struct sim_thread *t = &threads.all[number];

	t->fn(t->arg);
	t->done = true;
	t->used = !t->detached; /* another one may get its stack after the switch */
	while (!thread_switch())
		thread_pass_time();
	abort(); /* nothing switches to it again */
}

static void thread_released(void)
{
	if (threads.current == 0 && --threads.held == 0 && splitmix64(&threads.seed) % THREAD_YIELDS == 0)
		(void)thread_switch();
}

/* Whether a thread waits for a time. */
static bool threads_have_timer(void) { return thread_first_due() != UINT64_MAX; }

/* The program's thread waits for something that another one does without a lock. */
static void threads_run(void)
{
	if (!thread_switch())
		thread_pass_time();
}

/* ---- replaced functions of libc ---- */

int pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg)
{
	for (unsigned i = 1; i < THREADS; i++) {
		struct sim_thread *t = &threads.all[i];

		if (t->used)
			continue;
		if (!t->stack)
			t->stack = malloc(THREAD_STACK);
		t->fn = fn;
		t->arg = arg;
		t->used = true;
		t->done = t->detached = false;
		t->waits = NULL;
		getcontext(&t->context);
		t->context.uc_stack.ss_sp = t->stack;
		t->context.uc_stack.ss_size = THREAD_STACK;
		makecontext(&t->context, (void (*)(void))thread_main, 1, i);
		*ret = (pthread_t)i;
		return 0;
	}
	return EAGAIN;
}

int pthread_join(pthread_t thread, void **ret)
{
	struct sim_thread *t = &threads.all[(size_t)thread];

	while (!t->done)
		threads_run();
	t->used = false;
	return 0;
}

int pthread_detach(pthread_t thread)
{
	struct sim_thread *t = &threads.all[(size_t)thread];

	t->detached = true;
	t->used = !t->done;
	return 0;
}

pthread_t pthread_self(void) { return (pthread_t)threads.current; }

int pthread_mutex_lock(pthread_mutex_t *m)
{
	threads.held += threads.current == 0;
	return 0;
}

int pthread_mutex_unlock(pthread_mutex_t *m)
{
	thread_released();
	return 0;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *l)
{
	threads.readers++;
	threads.held += threads.current == 0;
	return 0;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *l)
{
	while (threads.readers)
		threads_run();
	return pthread_rwlock_rdlock(l);
}

int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	threads.readers--;
	thread_released();
	return 0;
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *m) { return thread_wait(cond, UINT64_MAX); }

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *m, const struct timespec *until)
{
	return thread_wait(cond, (uint64_t)until->tv_sec * 1000000000u + (uint64_t)until->tv_nsec);
}

int pthread_cond_signal(pthread_cond_t *cond)
{
	thread_wake(cond, 1);
	return 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
	thread_wake(cond, THREADS);
	return 0;
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) { return 0; }

int clock_gettime(clockid_t id, struct timespec *ret)
{
	const uint64_t ns = id == CLOCK_REALTIME ? threads.real_us * 1000 : threads.mono_ns;

	if (!threads.real_us)
		return (int)syscall(SYS_clock_gettime, id, ret);
	*ret = (struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };
	return 0;
}

ssize_t getrandom(void *p, size_t n, unsigned flags)
{
	for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
		const uint64_t r = splitmix64(&threads.seed);

		memcpy((char *)p + i, &r, n - i < sizeof r ? n - i : sizeof r);
	}
	return (ssize_t)n;
}

#endif
