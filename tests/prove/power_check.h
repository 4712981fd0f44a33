#ifndef BAILIFF_TESTS_POWER_CHECK_H
#define BAILIFF_TESTS_POWER_CHECK_H

/*
 * Checks a home after a power cut. It is opened by the daemon's own code (store and read models), and compared with
 * what the client received: a file of facts, one per line:
 *
 *   FROM UNTIL event SEQUENCE EVENT-ID        this event was received
 *   FROM UNTIL floor SEQUENCE                 events before this one may be gone (a prune was requested)
 *   FROM UNTIL output REF LENGTH HASH         the bytes of an output
 *   FROM UNTIL key UID KEY TEXT               the stored result of this idempotency key contains TEXT
 *   FROM UNTIL file PATH HASH[,HASH…]         the content of a file of the home; "-" = it does not exist
 *   FROM UNTIL sum LABEL PATH=HASH[,PATH=…]   all of these, in one state: one of the facts with this label must hold
 *   FROM UNTIL backup PATH SEQUENCE           a directory opens as a store that has this event
 *
 * FROM and UNTIL are positions in the record: a fact holds in the states of a cut at FROM or later, and before UNTIL.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FACT_WORDS = 3 };

struct fact {
	uint64_t from, until;
	char kind[12];
	char *word[FACT_WORDS];
};

struct facts {
	struct fact *all;
	size_t count;
};

struct check {
	const struct facts *facts;
	uint64_t point;
	const char *home;
	char wrong[400]; /* "" = all is well */
	uint64_t next;   /* expected sequence */
	const char **event_ids;
	uint64_t event_max;
};

static inline void check_wrong(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void check_wrong(struct check *c, const char *fmt, ...)
{
	va_list ap;

	if (c->wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(c->wrong, sizeof c->wrong, fmt, ap);
	va_end(ap);
}

static inline void facts_load(struct facts *f, const char *path)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;

	if (!in) {
		perror(path);
		exit(2);
	}
	while (getline(&line, &cap, in) > 0) {
		struct fact one = { 0 };
		char *rest = NULL, *word = strtok_r(line, " \n", &rest);

		one.from = strtoull(word ? word : "0", NULL, 10);
		word = strtok_r(NULL, " \n", &rest);
		one.until = strtoull(word ? word : "0", NULL, 10);
		word = strtok_r(NULL, " \n", &rest);
		snprintf(one.kind, sizeof one.kind, "%s", word ? word : "");
		for (int i = 0; i < FACT_WORDS; i++) {
			word = strtok_r(NULL, " \n", &rest);
			one.word[i] = mem_strdup(word ? word : "");
		}
		f->all = mem_realloc(f->all, (f->count + 1) * sizeof *f->all);
		f->all[f->count++] = one;
	}
	free(line);
	fclose(in);
}

static inline bool fact_holds(const struct check *c, const struct fact *f)
{
	return f->from <= c->point && c->point < f->until;
}

/* ---- files ---- */

static inline void hash_file(const char *home, const char *path, char ret[HASH_SHA256_TEXT])
{
	mem_auto char *whole = mem_printf("%s/%s", home, path);
	buf_auto struct buf bytes = BUF_INIT;
	int fd = open(whole, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n;

	snprintf(ret, HASH_SHA256_TEXT, "-");
	if (fd < 0)
		return;
	while ((n = read(fd, buf_reserve(&bytes, 65536), 65536)) > 0)
		buf_extend(&bytes, (size_t)n);
	close(fd);
	hash_sha256_text(bytes.data ? bytes.data : "", bytes.len, ret);
}

static inline void check_file(struct check *c, const struct fact *f)
{
	char have[HASH_SHA256_TEXT];

	hash_file(c->home, f->word[0], have);
	if (!strstr(f->word[1], have) || (strcmp(have, "-") == 0 && f->word[1][0] != '-'))
		check_wrong(c, "file %s has neither its old nor its new content (%.12s)", f->word[0], have);
}

static inline bool sum_matches(const struct check *c, const struct fact *f)
{
	mem_auto char *list = mem_strdup(f->word[1]);
	char *rest = NULL, have[HASH_SHA256_TEXT];

	for (char *pair = strtok_r(list, ",", &rest); pair; pair = strtok_r(NULL, ",", &rest)) {
		char *hash = strrchr(pair, '=');

		*hash++ = '\0';
		hash_file(c->home, pair, have);
		if (strcmp(have, hash) != 0)
			return false;
	}
	return true;
}

/* Alternatives: of the facts with one label, at least one. */
static inline void check_sum(struct check *c, const struct fact *first)
{
	for (size_t i = 0; i < c->facts->count; i++) {
		const struct fact *f = &c->facts->all[i];

		if (strcmp(f->kind, "sum") == 0 && strcmp(f->word[0], first->word[0]) == 0 && fact_holds(c, f) &&
		    sum_matches(c, f))
			return;
	}
	check_wrong(c, "%s: the files are in none of the permitted states", first->word[0]);
}

/* ---- a store ---- */

static inline bool check_event(void *ctx, const struct event_view *ev)
{
	struct check *c = ctx;
	char id[80] = "";
	struct jval v;

	if (ev->sequence != c->next)
		check_wrong(c, "event %" PRIu64 " where %" PRIu64 " belongs", ev->sequence, c->next);
	c->next = ev->sequence + 1;
	if (ev->sequence >= c->event_max || !c->event_ids[ev->sequence])
		return !c->wrong[0];
	v = event_member(ev, "eventId");
	jval_str(v, id, sizeof id);
	if (strcmp(id, c->event_ids[ev->sequence]) != 0)
		check_wrong(c, "event %" PRIu64 " is %s, but the client received %s", ev->sequence, id,
			    c->event_ids[ev->sequence]);
	return !c->wrong[0];
}

struct verified {
	struct check *c;
	bool done;
};

static inline void on_verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	struct verified *done = ctx;

	if (e || !v->ok)
		check_wrong(done->c, "verify: %.300s", e ? e->message : v->problems[0].what);
	done->done = true;
}

static inline void check_verify(struct check *c, struct store *store)
{
	struct verified v = { .c = c };

	store_verify(store, on_verified, &v);
	while (!v.done) {
		struct pollfd p = { .fd = store_dispatch_fd(store), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(store);
	}
}

static inline void check_output(struct check *c, struct store *store, const struct fact *f)
{
	buf_auto struct buf bytes = BUF_INIT;
	char hash[HASH_SHA256_TEXT];
	struct err e = ERR_INIT;

	if (store_output_whole(store, f->word[0], 64u << 20, &bytes, &e) != 0) {
		check_wrong(c, "output %s: %.200s", f->word[0], e.message);
		return;
	}
	hash_sha256_text(bytes.data ? bytes.data : "", bytes.len, hash);
	if (bytes.len != strtoull(f->word[1], NULL, 10) || strcmp(hash, f->word[2]) != 0)
		check_wrong(c, "output %s has %zu bytes of %s, or other ones", f->word[0], bytes.len, f->word[1]);
}

static inline void check_key(struct check *c, struct store *store, const struct fact *f)
{
	buf_auto struct buf result = BUF_INIT;
	struct err e = ERR_INIT;
	char method[64];
	uint8_t hash[32];
	int rc = store_idempotency_get(store, (uint32_t)strtoul(f->word[0], NULL, 10), f->word[1], method, hash,
				       &result, &e);

	if (rc != 0)
		check_wrong(c, "idempotency key %s: %s", f->word[1], rc < 0 ? e.message : "unknown");
	else if (!strstr(buf_cstr(&result), f->word[2]))
		check_wrong(c, "idempotency key %s has another result than %s", f->word[1], f->word[2]);
}

static inline struct store *open_store(struct check *c, const char *at)
{
	mem_auto char *dir = mem_printf("%s/store", at), *spool = mem_printf("%s/spool", at);
	const struct store_options o = { .dir = dir,
					 .spool_dir = spool,
					 .map_bytes = 256u << 20,
					 .ballast_bytes = 4096,
					 .project = view_project,
					 .growing_models = view_growing_kinds,
					 .project_speculative = view_project_speculative };
	struct store *store = NULL;
	struct err e = ERR_INIT;

	if (store_open(&o, &store, &e) != 0) {
		check_wrong(c, "%.350s", e.message);
		return NULL;
	}
	return store;
}

static inline void check_events(struct check *c, struct store *store)
{
	uint64_t last = 0, floor = 1;
	struct err e = ERR_INIT;

	memset(c->event_ids, 0, c->event_max * sizeof *c->event_ids);
	for (size_t i = 0; i < c->facts->count; i++) {
		const struct fact *f = &c->facts->all[i];
		uint64_t n = strtoull(f->word[0], NULL, 10);

		if (!fact_holds(c, f))
			continue;
		if (strcmp(f->kind, "event") == 0) {
			c->event_ids[n] = f->word[1];
			last = n > last ? n : last;
		} else if (strcmp(f->kind, "floor") == 0 && n > floor) {
			floor = n;
		}
	}
	if (store_last_sequence(store) < last)
		check_wrong(c, "the log ends with event %" PRIu64 ", but the client received %" PRIu64,
			    store_last_sequence(store), last);
	if (store_first_sequence(store) > floor)
		check_wrong(c, "the log begins with event %" PRIu64 " instead of %" PRIu64, store_first_sequence(store),
			    floor);
	c->next = store_first_sequence(store);
	const struct store_query q = { .after = c->next - 1, .index = -1 };
	if (store_events(store, &q, check_event, c, &e) != 0)
		check_wrong(c, "read the events: %.300s", e.message);
	if (c->next != store_last_sequence(store) + 1)
		check_wrong(c, "the log has events up to %" PRIu64 " instead of %" PRIu64, c->next - 1,
			    store_last_sequence(store));
}

static inline void check_backup(struct check *c, const struct fact *f)
{
	mem_auto char *at = mem_printf("%s/%s", c->home, f->word[0]);
	struct store *store;
	struct stat st;

	if (stat(at, &st) != 0) {
		check_wrong(c, "the backup %s does not exist", f->word[0]);
		return;
	}
	store = open_store(c, at);
	if (!store)
		return;
	if (store_last_sequence(store) < strtoull(f->word[1], NULL, 10))
		check_wrong(c, "the backup ends with event %" PRIu64 " instead of %s", store_last_sequence(store),
			    f->word[1]);
	check_verify(c, store);
	store_close(store);
}

/* Checks the whole home; `c->wrong` describes the first violation. */
static inline void check_home(struct check *c)
{
	struct store *store = open_store(c, c->home);

	if (!store)
		return;
	check_events(c, store);
	check_verify(c, store);
	for (size_t i = 0; i < c->facts->count && !c->wrong[0]; i++) {
		const struct fact *f = &c->facts->all[i];

		if (!fact_holds(c, f))
			continue;
		if (strcmp(f->kind, "output") == 0)
			check_output(c, store, f);
		else if (strcmp(f->kind, "key") == 0)
			check_key(c, store, f);
		else if (strcmp(f->kind, "file") == 0)
			check_file(c, f);
		else if (strcmp(f->kind, "sum") == 0)
			check_sum(c, f);
		else if (strcmp(f->kind, "backup") == 0)
			check_backup(c, f);
	}
	store_close(store);
}

#endif
