/*
 * Crash states of a recorded daemon (recorder.c), each opened and checked (power_check.h).
 *
 *   power_states RECORD ROOT-INODE FACTS WORK [option=value…]
 *   power_states age STORE VERSION          give a store an earlier version
 *
 * The model of a disk: data of a file is durable after a sync of the file, a name after a sync of its directory; of
 * everything else any part may be there. So a cut after N records leaves the durable data, and of the unsynced writes
 * any subset, in whole, in pages or in sectors; a file's size is that after any of its unsynced changes; of the
 * unsynced changes of names any subset, in order. A rename is atomic. Every N is tried, with nothing, everything, data
 * without names, names without data, and random choices; few unsynced changes exhaustively.
 *
 * Options: variants=N random choices per point, seed=N, share=I/N (states are dealt by their hash), seconds=N,
 * states=N, control=syncs|names (known-bad: file syncs, or directory syncs, have no effect; only states from after the
 * first acknowledgement, because earlier ones have nothing to lose), only=POINT:VARIANT with
 * keep=DIR (write that state there and check it), dump=N (keep every Nth state in WORK), final=DIR (compare the end of
 * the record with the files there).
 *
 * A progress line a second: "STATES DISTINCT FAILED POINT POINTS". Failures: "fail POINT:VARIANT what". The states are
 * checked in a child, so that a crash of the store is a failure like any other.
 */
#include "runtime/store/db.h"
#include "runtime/store/store_meta.h"
#include "tests/prove/power_check.h"
#include "tests/prove/power_disk.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define SEEN_BITS 22
#define PASS 2u /* variants of each point before the next ones are tried */

struct shared {
	uint64_t states, distinct, failed, point, variant, pass, dumped;
	uint64_t seen[1u << SEEN_BITS];
};

struct options {
	uint64_t seed, variants, share, shares, seconds, states, only_point, only_variant, dump;
	bool only;
	const char *keep, *final;
};

static struct options options = { .variants = 6, .shares = 1 };
static const struct recorder_log *record_log;
static const char *work;
static struct facts facts;
static struct shared *shared;
static uint64_t started_ns;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- all states ---- */

static const struct record *next_record(const struct record *r)
{
	const char *first = (const char *)(record_log + 1);

	if (!r)
		return record_log->tail ? (const struct record *)first : NULL;
	r = (const struct record *)((const char *)r + r->size);
	return (const char *)r < first + record_log->tail ? r : NULL;
}

/* True if this disk with as many facts was not checked before. */
static bool is_new(uint64_t key)
{
	uint64_t at = key & ((1u << SEEN_BITS) - 1);

	key |= 1;
	while (shared->seen[at] && shared->seen[at] != key)
		at = (at + 1) & ((1u << SEEN_BITS) - 1);
	if (shared->seen[at])
		return false;
	shared->seen[at] = key;
	return true;
}

static uint64_t facts_at(uint64_t point)
{
	uint64_t n = 0;

	for (size_t i = 0; i < facts.count; i++)
		n += (facts.all[i].from <= point) + (facts.all[i].until <= point);
	return n;
}

static void check_state(const struct state *s, uint64_t point, uint64_t variant)
{
	static const char **event_ids;
	static uint64_t event_max;
	mem_auto char *home = options.keep ? mem_strdup(options.keep)
					   : mem_printf("%s/state-%" PRIu64, work, options.share);
	struct check c = { .facts = &facts, .point = point, .home = home };

	if (!event_ids) {
		for (size_t i = 0; i < facts.count; i++)
			if (strcmp(facts.all[i].kind, "event") == 0 &&
			    strtoull(facts.all[i].word[0], NULL, 10) >= event_max)
				event_max = strtoull(facts.all[i].word[0], NULL, 10) + 1;
		event_ids = mem_zalloc(event_max + 1, sizeof *event_ids);
	}
	c.event_ids = event_ids;
	c.event_max = event_max;
	if (options.dump && shared->states % options.dump == 0) {
		mem_auto char *kept = mem_printf("%s/dump-%" PRIu64 "-%" PRIu64, work, point, variant);

		state_write(s, kept);
		shared->dumped++;
	}
	state_write(s, home);
	check_home(&c);
	if (c.wrong[0]) {
		shared->failed++;
		printf("fail %" PRIu64 ":%" PRIu64 " %s\n", point, variant, c.wrong);
		fflush(stdout);
	} else if (options.only) {
		printf("ok %" PRIu64 ":%" PRIu64 "\n", point, variant);
		fflush(stdout);
	}
}

/* The first point at which the client had received something. */
static uint64_t first_acknowledgement(void)
{
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < facts.count; i++)
		if (strcmp(facts.all[i].kind, "event") == 0 && facts.all[i].from < first)
			first = facts.all[i].from;
	return first;
}

static bool time_is_up(void)
{
	return (options.seconds && now_ns() - started_ns > options.seconds * 1000000000u) ||
	       (options.states && shared->states >= options.states);
}

/* The variants of one pass, from `first` on; whether there are more. */
static bool try_point(struct disk *d, uint64_t point, uint64_t pass, uint64_t first)
{
	uint64_t changes = d->pending_count, pieces = 0, count, known = facts_at(point);

	for (size_t i = 0; i < d->inode_count; i++)
		for (size_t k = 0; k < d->inodes[i]->count; k++, changes++)
			pieces += 1 + d->inodes[i]->changes[k].r->length / PAGE;
	count = (changes <= EXHAUSTIVE ? 1u << changes : 4) + (changes ? options.variants : 0);
	if (options.only) {
		pass = options.only_variant / PASS;
		first = options.only_variant;
	}
	first = first > pass * PASS ? first : pass * PASS;
	for (uint64_t v = first; v < count && v < (pass + 1) * PASS && !time_is_up(); v++) {
		struct state s;
		struct choice c;

		if (options.only && v != options.only_variant)
			continue;
		model.rng = options.seed ^ hash64(&point, sizeof point, v + 1);
		c = choose(v, changes, pieces);
		state_make(&s, d, &c);
		shared->point = point;
		shared->variant = v;
		if (options.only || (s.hash % options.shares == options.share &&
				     is_new(s.hash ^ ((known + 1) * 0x9e3779b97f4a7c15ull)))) {
			shared->states++;
			shared->distinct += is_new(s.hash);
			check_state(&s, point, v);
		}
		state_done(&s);
	}
	return count > (pass + 1) * PASS;
}

/* Few variants at every point before more of them, so that a run that ends early has been everywhere. */
static bool run_pass(uint64_t root, uint64_t pass, uint64_t point, uint64_t variant)
{
	struct disk d = { 0 };
	uint64_t at = 0;
	bool more = false;

	if ((model.no_syncs || model.no_names) && point < first_acknowledgement())
		point = first_acknowledgement();
	d.root = add_inode(&d, root, S_IFDIR);
	for (const struct record *r = NULL; (r = next_record(r)) && !time_is_up();) {
		replay(&d, r);
		at++;
		if (options.only ? at == options.only_point : at >= point)
			more |= try_point(&d, at, pass, at == point ? variant : 0);
	}
	disk_done(&d);
	return more && !options.only && !time_is_up();
}

static void run_all(uint64_t root, uint64_t pass, uint64_t point, uint64_t variant)
{
	for (shared->pass = pass; run_pass(root, shared->pass, point, variant); shared->pass++)
		point = variant = 0;
}

/* ---- the end of the record against the files ---- */

static int compare_final(uint64_t root)
{
	struct choice all = { .data = DATA_ALL, .names = NAMES_ALL };
	struct disk d = { 0 };
	struct state s;
	int differ = 0;

	d.root = add_inode(&d, root, S_IFDIR);
	for (const struct record *r = NULL; (r = next_record(r));)
		replay(&d, r);
	state_make(&s, &d, &all);
	for (size_t i = 0; i < s.count; i++) {
		const struct entry *e = &s.all[i];
		const struct buf *b = e->changed ? &e->content : &e->inode->durable;
		char want[HASH_SHA256_TEXT], have[HASH_SHA256_TEXT];

		if (!S_ISREG(e->inode->mode) || !is_data(e->path))
			continue;
		hash_sha256_text(b->data ? b->data : "", b->len, want);
		hash_file(options.final, e->path, have);
		if (strcmp(want, have) != 0) {
			printf("differs %s (%zu bytes recorded)\n", e->path, b->len);
			differ = 1;
		}
	}
	for (size_t i = 0; i < s.count; i++)
		printf("has %s\n", s.all[i].path);
	state_done(&s);
	return differ;
}

/* ---- an old store ---- */

/* Gives a store an earlier version, so that the next daemon upgrades it: the index is built again. */
static int age_store(const char *dir, uint32_t version)
{
	struct err e = ERR_INIT;
	struct db db;
	MDB_txn *txn;
	bool empty;

	if (db_open(dir, 256u << 20, 0, &db, &empty, &e) != 0 || mdb_txn_begin(db.env, NULL, 0, &txn) != 0 ||
	    db_meta_put(txn, &db, META_VERSION, &version, sizeof version, &e) != 0 || mdb_txn_commit(txn) != 0) {
		fprintf(stderr, "%s: %s\n", dir, e.message);
		return 1;
	}
	db_close(&db);
	return 0;
}

/* ---- the program ---- */

static void set_option(const char *word)
{
	const char *value = strchr(word, '=');
	uint64_t n = value ? strtoull(value + 1, NULL, 10) : 0;
	const struct {
		const char *name;
		uint64_t *to;
	} numbers[] = { { "variants=", &options.variants }, { "seed=", &options.seed },
			{ "seconds=", &options.seconds },   { "states=", &options.states },
			{ "dump=", &options.dump },         { "share=", &options.share },
			{ "only=", &options.only_point } };

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (strncmp(word, numbers[i].name, strlen(numbers[i].name)) == 0)
			*numbers[i].to = n;
	if (strncmp(word, "share=", 6) == 0 && strchr(word, '/'))
		options.shares = strtoull(strchr(word, '/') + 1, NULL, 10);
	if (strncmp(word, "only=", 5) == 0 && strchr(word, ':')) {
		options.only = true;
		options.only_variant = strtoull(strchr(word, ':') + 1, NULL, 10);
	}
	model.no_syncs |= strcmp(word, "control=syncs") == 0;
	model.no_names |= strcmp(word, "control=names") == 0;
	if (strncmp(word, "keep=", 5) == 0)
		options.keep = word + 5;
	if (strncmp(word, "final=", 6) == 0)
		options.final = word + 6;
}

static void tell(void)
{
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", shared->states, shared->distinct,
	       shared->failed, shared->point, record_log->count);
	fflush(stdout);
}

/* A child that dies has found a state that kills the store's code; the next one continues after it. */
static void supervise(uint64_t root)
{
	uint64_t pass = 0, point = 0, variant = 0;
	int status;

	for (;;) {
		pid_t pid = fork();

		if (pid == 0) {
			run_all(root, pass, point, variant);
			_exit(0);
		}
		for (unsigned n = 1; waitpid(pid, &status, WNOHANG) == 0; n++) {
			if (n % 20 == 0)
				tell();
			usleep(50000);
		}
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			break;
		shared->failed++;
		printf("fail %" PRIu64 ":%" PRIu64 " the checker died with status %d\n", shared->point, shared->variant,
		       status);
		pass = shared->pass;
		point = shared->point;
		variant = shared->variant + 1;
		if (options.only || shared->failed > 1000)
			break;
	}
	tell();
}

int main(int argc, char **argv)
{
	struct stat st;
	int fd;

	if (argc == 4 && strcmp(argv[1], "age") == 0)
		return age_store(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
	if (argc < 5) {
		fprintf(stderr, "usage: power_states RECORD ROOT-INODE FACTS WORK [option=value...]\n");
		return 2;
	}
	for (int i = 5; i < argc; i++)
		set_option(argv[i]);
	log_setup("power_states", LOG_LEVEL_ERROR, false);
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		perror(argv[1]);
		return 2;
	}
	record_log = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (record_log == MAP_FAILED || shared == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	work = argv[4];
	started_ns = now_ns();
	if (options.final)
		return compare_final(strtoull(argv[2], NULL, 10));
	facts_load(&facts, argv[3]);
	supervise(strtoull(argv[2], NULL, 10));
	return shared->failed ? 1 : 0;
}
