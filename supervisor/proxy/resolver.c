/*
 * getaddrinfo in a few threads. An asynchronous DNS library is no replacement: it would ignore /etc/hosts, mDNS and
 * whatever else nsswitch.conf names, and answers would differ from those of other programs on the machine.
 *
 * A lookup moves from `asked` to `running` in a worker to `done` and back to the loop's thread, which alone calls
 * callbacks and frees. getaddrinfo cannot be interrupted: a cancelled lookup that has begun occupies its worker until
 * the name server has answered or timed out, and is part of WAITING_MAX.
 */

#include "supervisor/proxy/resolver.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/loop/loop.h"

#include <event2/event.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 16
#define THREADS_OF_USER 8
#define THREADS_OF_SANDBOX 4
#define WAITING_MAX 4096u
#define WAITING_OF_USER 2048u

struct lookup {
	TAILQ_ENTRY(lookup) link;
	struct resolver *resolver;
	struct lookup_owner owner;
	bool asked; /* no worker has it yet */
	char name[HOST_NAME_MAX_LEN + 1];
	lookup_fn fn; /* NULL = cancelled; used only in the loop's thread */
	void *ctx;
	int error;
	struct net_address address[LOOKUP_ADDRESSES_MAX];
	size_t count;
};
TAILQ_HEAD(lookups, lookup);

struct resolver {
	struct strmap fixed, coming; /* name → struct net_address; in effect, and after the next resolver_fixed */
	size_t waiting;
	int wake_fd; /* eventfd: a lookup has finished */
	struct event *ev;
	pthread_t thread[THREADS];
	size_t nthreads;
	pthread_mutex_t lock; /* protects the members below, and lookup.asked */
	pthread_cond_t more;
	struct lookups asked, running, done;
	bool leaving;
};

static bool may_run(const struct resolver *r, const struct lookup *l)
{
	const struct lookup *other;
	unsigned user = 0, sandbox = 0;

	TAILQ_FOREACH (other, &r->running, link) {
		user += other->owner.uid == l->owner.uid;
		sandbox += other->owner.sandbox == l->owner.sandbox;
	}
	return user < THREADS_OF_USER && sandbox < THREADS_OF_SANDBOX;
}

/* The first one that may run now. A worker that has finished one looks for the next itself, so none is forgotten. */
static struct lookup *next_lookup(const struct resolver *r)
{
	struct lookup *l;

	TAILQ_FOREACH (l, &r->asked, link)
		if (may_run(r, l))
			break;
	return l;
}

static void *run_worker(void *ctx)
{
	struct resolver *r = ctx;
	const uint64_t one = 1;

	pthread_mutex_lock(&r->lock);
	while (!r->leaving) {
		struct lookup *l = next_lookup(r);
		if (!l) {
			pthread_cond_wait(&r->more, &r->lock);
			continue;
		}
		TAILQ_REMOVE(&r->asked, l, link);
		l->asked = false;
		TAILQ_INSERT_TAIL(&r->running, l, link);
		pthread_mutex_unlock(&r->lock);
		/* Without the lock: no other thread changes a lookup that is running, except for `fn`. */
		const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
		struct addrinfo *list = NULL;
		l->error = getaddrinfo(l->name, NULL, &hints, &list);
		if (l->error == 0) {
			for (const struct addrinfo *a = list; a && l->count < LOOKUP_ADDRESSES_MAX; a = a->ai_next)
				if (net_address_of(a->ai_addr, &l->address[l->count]))
					l->count++;
			freeaddrinfo(list);
			if (l->count == 0)
				l->error = EAI_NONAME;
		}
		pthread_mutex_lock(&r->lock);
		TAILQ_REMOVE(&r->running, l, link);
		TAILQ_INSERT_TAIL(&r->done, l, link);
		(void)!write(r->wake_fd, &one, sizeof one);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

static void on_done(evutil_socket_t fd, short what, void *ctx)
{
	struct resolver *r = ctx;
	struct lookups done = TAILQ_HEAD_INITIALIZER(done);
	struct lookup *l;
	uint64_t n;

	(void)!read(r->wake_fd, &n, sizeof n);
	pthread_mutex_lock(&r->lock);
	TAILQ_CONCAT(&done, &r->done, link);
	pthread_mutex_unlock(&r->lock);
	while ((l = TAILQ_FIRST(&done))) {
		TAILQ_REMOVE(&done, l, link);
		r->waiting--;
		if (l->fn)
			l->fn(l->ctx, l->error, l->address, l->count);
		free(l);
	}
}

struct resolver *resolver_new(struct event_base *base)
{
	struct resolver *r = mem_zalloc(1, sizeof *r);

	r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->more, NULL);
	TAILQ_INIT(&r->asked);
	TAILQ_INIT(&r->running);
	TAILQ_INIT(&r->done);
	r->ev = event_new(base, r->wake_fd, EV_READ | EV_PERSIST, on_done, r);
	loop_add(r->ev, NULL);
	return r;
}

static void free_fixed(void *ctx, const char *name, void *value) { free(value); }

static void forget_names(struct strmap *names)
{
	strmap_each(names, free_fixed, NULL);
	strmap_done(names);
}

void resolver_fix(struct resolver *r, const char *name, const struct net_address *a)
{
	if (!a)
		return forget_names(&r->coming);
	/* A name that is configured twice: the last address is used. */
	free(strmap_get(&r->coming, name));
	strmap_put(&r->coming, name, mem_dup(a, sizeof *a));
}

void resolver_fixed(struct resolver *r)
{
	forget_names(&r->fixed);
	r->fixed = r->coming;
	r->coming = STRMAP_INIT;
}

void resolver_free(struct resolver *r)
{
	struct lookup *l;

	pthread_mutex_lock(&r->lock);
	/* A worker that is inside getaddrinfo finishes its lookup first. */
	r->leaving = true;
	pthread_cond_broadcast(&r->more);
	pthread_mutex_unlock(&r->lock);
	for (size_t i = 0; i < r->nthreads; i++)
		pthread_join(r->thread[i], NULL);
	TAILQ_CONCAT(&r->asked, &r->done, link);
	while ((l = TAILQ_FIRST(&r->asked))) {
		TAILQ_REMOVE(&r->asked, l, link);
		free(l);
	}
	forget_names(&r->fixed);
	forget_names(&r->coming);
	event_free(r->ev);
	fd_close(&r->wake_fd);
	free(r);
}

/* The machine's own names and the configured ones need no resolver. */
static bool answer_from_table(struct resolver *r, struct lookup *l)
{
	const struct net_address *fixed = strmap_get(&r->fixed, l->name);

	if (fixed) {
		l->address[l->count++] = *fixed;
	} else if (strcmp(l->name, "localhost") == 0) {
		net_address_parse("127.0.0.1", &l->address[l->count++]);
		net_address_parse("::1", &l->address[l->count++]);
	}
	return l->count > 0;
}

static bool has_too_many(struct resolver *r, uint32_t uid)
{
	const struct lookup *l;
	unsigned count = 0;

	pthread_mutex_lock(&r->lock);
	TAILQ_FOREACH (l, &r->asked, link)
		count += l->owner.uid == uid;
	pthread_mutex_unlock(&r->lock);
	return count >= WAITING_OF_USER;
}

struct lookup *resolver_ask(struct resolver *r, const struct lookup_owner *owner, const char *name, lookup_fn fn,
			    void *ctx)
{
	const uint64_t one = 1;

	if (r->waiting >= WAITING_MAX || has_too_many(r, owner->uid))
		return NULL;
	struct lookup *l = mem_zalloc(1, sizeof *l);
	l->resolver = r;
	l->owner = *owner;
	l->fn = fn;
	l->ctx = ctx;
	snprintf(l->name, sizeof l->name, "%s", name);
	bool is_known = answer_from_table(r, l);
	l->asked = !is_known;
	/* Even a known answer goes through the queue: the callback must not run before this function returns. */
	pthread_mutex_lock(&r->lock);
	if (is_known)
		TAILQ_INSERT_TAIL(&r->done, l, link);
	else
		TAILQ_INSERT_TAIL(&r->asked, l, link);
	pthread_cond_signal(&r->more);
	pthread_mutex_unlock(&r->lock);
	r->waiting++;
	if (is_known)
		(void)!write(r->wake_fd, &one, sizeof one);
	/* Threads are started on demand, one for each lookup in progress, up to THREADS. */
	else if (r->nthreads < THREADS && r->nthreads < r->waiting &&
		 pthread_create(&r->thread[r->nthreads], NULL, run_worker, r) == 0)
		r->nthreads++;
	return l;
}

/* One that a worker has is only marked: on_done frees it. */
void lookup_cancel(struct lookup *l)
{
	struct resolver *r = l->resolver;

	l->fn = NULL;
	pthread_mutex_lock(&r->lock);
	bool asked = l->asked;
	if (asked)
		TAILQ_REMOVE(&r->asked, l, link);
	pthread_mutex_unlock(&r->lock);
	if (!asked)
		return;
	r->waiting--;
	free(l);
}
