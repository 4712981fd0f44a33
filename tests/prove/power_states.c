/*
 * Crash states of a recorded daemon (recorder.c), each opened and checked (power_check.h).
 *
 *   power_states RECORD ROOT-INODE FACTS WORK [option=value…]
 *
 * The model of a disk: data of a file is durable after a sync of the file, a name after a sync of its directory; of
 * everything else any part may be there. So a cut after N records leaves the durable data, and of the unsynced writes
 * any subset, in whole, in pages or in sectors; a file's size is that after any of its unsynced changes; of the
 * unsynced changes of names any subset, in order. A rename is atomic. Every N is tried, with nothing, everything, data
 * without names, names without data, and random choices; few unsynced changes exhaustively.
 *
 * Options: variants=N random choices per point, seed=N, share=I/N (states are dealt by their hash), seconds=N,
 * states=N, control=syncs|names (known-bad: file syncs, or directory syncs, have no effect), only=POINT:VARIANT with
 * keep=DIR (write that state there and check it), dump=N (keep every Nth state in WORK), final=DIR (compare the end of
 * the record with the files there).
 *
 * A progress line a second: "STATES DISTINCT FAILED POINT POINTS". Failures: "fail POINT:VARIANT what". The states are
 * checked in a child, so that a crash of the store is a failure like any other.
 */
#include "tests/prove/power_check.h"
#include "tests/prove/recorder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define PAGE 4096u
#define SECTOR 512u
#define SEEN_BITS 22
#define PASS 8u      /* variants of each point before the next ones are tried */
#define EXHAUSTIVE 5 /* unsynced changes of which every subset is tried */

struct change { /* of a file's data, unsynced */
	const struct record *r;
	const char *data; /* NULL = zeroes */
};

struct inode {
	uint64_t number;
	uint32_t mode;
	const char *target; /* of a symbolic link */
	struct buf durable;
	uint64_t hash; /* of the durable content; 0 = not computed */
	struct change *changes;
	size_t count, cap;
};

struct name { /* durable: inode NULL = removed */
	struct inode *dir, *inode;
	const char *name;
};

struct renaming { /* an unsynced change of names: to == NULL removes `from`, from.name == NULL only adds `to` */
	struct name from, to;
};

struct disk {
	struct inode **inodes;
	size_t inode_count;
	struct name *names;
	size_t name_count;
	struct renaming *pending;
	size_t pending_count;
	struct inode *root;
};

struct entry { /* of a state */
	char *path;
	const struct inode *inode;
	struct buf content; /* if it has unsynced changes */
	bool changed;
};

struct state {
	struct entry *all;
	size_t count;
	uint64_t hash;
};

struct shared {
	uint64_t states, distinct, failed, point, variant, pass, dumped;
	uint64_t seen[1u << SEEN_BITS];
};

struct options {
	uint64_t seed, variants, share, shares, seconds, states, only_point, only_variant, dump;
	bool only, no_syncs, no_names;
	const char *keep, *final;
};

static struct options options = { .variants = 6, .shares = 1 };
static const struct recorder_log *record_log;
static const char *work;
static struct facts facts;
static struct shared *shared;
static uint64_t rng, started_ns;

static uint64_t draw(uint64_t n)
{
	uint64_t z = (rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return n ? z % n : z;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the disk as the record goes on ---- */

static struct inode *find_inode(struct disk *d, uint64_t number)
{
	for (size_t i = d->inode_count; i-- > 0;) /* the newest of a number that was used again */
		if (d->inodes[i]->number == number)
			return d->inodes[i];
	return NULL;
}

static struct inode *add_inode(struct disk *d, uint64_t number, uint32_t mode)
{
	struct inode *n = mem_zalloc(1, sizeof *n);

	n->number = number;
	n->mode = mode;
	d->inodes = mem_realloc(d->inodes, (d->inode_count + 1) * sizeof *d->inodes);
	d->inodes[d->inode_count++] = n;
	return n;
}

static void set_name(struct name **names, size_t *count, struct inode *dir, const char *name, struct inode *to)
{
	for (size_t i = 0; i < *count; i++)
		if ((*names)[i].dir == dir && strcmp((*names)[i].name, name) == 0) {
			(*names)[i].inode = to;
			return;
		}
	if (!to)
		return;
	*names = mem_realloc(*names, (*count + 1) * sizeof **names);
	(*names)[(*count)++] = (struct name){ .dir = dir, .inode = to, .name = name };
}

static void apply_renaming(struct name **names, size_t *count, const struct renaming *r)
{
	if (r->from.name)
		set_name(names, count, r->from.dir, r->from.name, NULL);
	if (r->to.name)
		set_name(names, count, r->to.dir, r->to.name, r->to.inode);
}

static bool same_place(const struct name *a, const struct name *b)
{
	return a->name && b->name && a->dir == b->dir && strcmp(a->name, b->name) == 0;
}

/* Durable now. What happened earlier to the same names no longer matters. */
static void settle_renaming(struct disk *d, size_t at)
{
	struct renaming r = d->pending[at];

	apply_renaming(&d->names, &d->name_count, &r);
	memmove(d->pending + at, d->pending + at + 1, (d->pending_count - at - 1) * sizeof r);
	d->pending_count--;
	for (size_t i = at; i-- > 0;) {
		const struct renaming *p = &d->pending[i];

		if (same_place(&p->to, &r.from) || same_place(&p->to, &r.to) ||
		    (!p->to.name && same_place(&p->from, &r.to))) {
			memmove(d->pending + i, d->pending + i + 1, (d->pending_count - i - 1) * sizeof r);
			d->pending_count--;
			at--;
		}
	}
}

static void write_content(struct buf *b, uint64_t at, const char *data, uint64_t n)
{
	if (at + n > b->len) {
		uint64_t more = at + n - b->len;

		memset(buf_reserve(b, more), 0, more);
		buf_extend(b, more);
	}
	if (!n)
		return;
	if (data)
		memcpy(b->data + at, data, n);
	else
		memset(b->data + at, 0, n);
}

static void resize_content(struct buf *b, uint64_t size)
{
	if (size > b->len)
		write_content(b, size, NULL, 0);
	else
		b->len = size;
}

static void apply_change(struct buf *b, const struct change *c)
{
	if (c->r->kind == RECORD_TRUNCATE)
		resize_content(b, c->r->length);
	else
		write_content(b, c->r->offset, c->data, c->r->length);
}

static void sync_file(struct inode *n)
{
	for (size_t i = 0; i < n->count; i++)
		apply_change(&n->durable, &n->changes[i]);
	n->count = 0;
	n->hash = 0;
}

static void sync_names(struct disk *d, const struct inode *dir)
{
	for (size_t i = 0; i < d->pending_count;) {
		if (!dir || d->pending[i].from.dir == dir || d->pending[i].to.dir == dir) {
			settle_renaming(d, i);
			i = 0;
		} else {
			i++;
		}
	}
}

static void add_change(struct inode *n, const struct record *r)
{
	struct change c = { .r = r, .data = r->has_data ? (const char *)(r + 1) + r->names : NULL };

	if (r->synced && !options.no_syncs) { /* O_DSYNC: this range, and not what was written before */
		apply_change(&n->durable, &c);
		n->hash = 0;
		return;
	}
	if (n->count == n->cap) {
		n->cap = n->cap ? 2 * n->cap : 16;
		n->changes = mem_realloc(n->changes, (n->cap) * sizeof *n->changes);
	}
	n->changes[n->count++] = c;
}

static void add_renaming(struct disk *d, struct renaming r)
{
	d->pending = mem_realloc(d->pending, (d->pending_count + 1) * sizeof *d->pending);
	d->pending[d->pending_count++] = r;
}

static void replay_sync(struct disk *d, const struct record *r)
{
	struct inode *n = find_inode(d, r->inode);

	if (r->kind == RECORD_SYNC && n && S_ISDIR(n->mode)) {
		if (!options.no_names)
			sync_names(d, n);
	} else if (r->kind == RECORD_SYNC) {
		if (n && !options.no_syncs)
			sync_file(n);
	} else {
		for (size_t i = 0; i < d->inode_count; i++)
			sync_file(d->inodes[i]);
		sync_names(d, NULL);
	}
}

/* Names outside of the recorded directories lead nowhere: what happens there is ignored. */
static void replay_name(struct disk *d, const struct record *r)
{
	const char *name = (const char *)(r + 1), *name2 = name + r->name2;
	struct inode *dir = find_inode(d, r->dir), *dir2 = r->dir2 ? find_inode(d, r->dir2) : NULL, *n;

	if (r->kind == RECORD_RENAME && !dir && dir2)
		dir = dir2;
	if (!dir)
		return;
	if (r->kind == RECORD_CREATE) {
		n = add_inode(d, r->inode, r->mode);
		if (S_ISLNK(r->mode))
			n->target = name2;
		add_renaming(d, (struct renaming){ .to = { .dir = dir, .name = name, .inode = n } });
		return;
	}
	n = find_inode(d, r->inode);
	if (!n)
		return;
	if (r->kind == RECORD_LINK)
		add_renaming(d, (struct renaming){ .to = { .dir = dir, .name = name, .inode = n } });
	else if (r->kind == RECORD_UNLINK)
		add_renaming(d, (struct renaming){ .from = { .dir = dir, .name = name, .inode = n } });
	else if (dir2)
		add_renaming(d, (struct renaming){ .from = { .dir = dir, .name = name, .inode = n },
						   .to = { .dir = dir2, .name = name2, .inode = n } });
}

static void replay(struct disk *d, const struct record *r)
{
	struct inode *n;

	if (r->kind == RECORD_SYNC || r->kind == RECORD_SYNC_ALL) {
		replay_sync(d, r);
	} else if (r->kind == RECORD_WRITE || r->kind == RECORD_TRUNCATE) {
		n = find_inode(d, r->inode);
		if (n)
			add_change(n, r);
	} else {
		replay_name(d, r);
	}
}

static void disk_done(struct disk *d)
{
	for (size_t i = 0; i < d->inode_count; i++) {
		buf_done(&d->inodes[i]->durable);
		free(d->inodes[i]->changes);
		free(d->inodes[i]);
	}
	free(d->inodes);
	free(d->names);
	free(d->pending);
}

/* ---- one state ---- */

/* How much of the unsynced changes is there. */
struct choice {
	enum { DATA_NONE, DATA_ALL, DATA_BITS, DATA_RANDOM, DATA_BUT_ONE, DATA_ONLY_ONE, DATA_PREFIX } data;
	enum { NAMES_NONE, NAMES_ALL, NAMES_BITS, NAMES_RANDOM, NAMES_PREFIX } names;
	uint32_t grain; /* 0 = whole writes */
	uint64_t bits;  /* DATA_BITS, NAMES_BITS: by ordinal, names first */
	uint64_t one, percent;
};

static struct choice choose(uint64_t variant, uint64_t changes, uint64_t pieces)
{
	static const uint32_t grains[] = { 0, PAGE, SECTOR };
	static const uint64_t percents[] = { 50, 10, 90 };
	struct choice c = { 0 };

	if (changes <= EXHAUSTIVE)
		return (struct choice){ .data = DATA_BITS, .names = NAMES_BITS, .bits = variant };
	if (variant < 4) {
		c.data = variant & 1 ? DATA_ALL : DATA_NONE;
		c.names = variant & 2 ? NAMES_ALL : NAMES_NONE;
		return c;
	}
	c.data = DATA_RANDOM + draw(4);
	c.names = draw(2) ? NAMES_RANDOM : draw(2) ? NAMES_PREFIX : NAMES_ALL;
	c.grain = grains[draw(3)];
	c.percent = percents[draw(3)];
	c.one = draw(pieces ? pieces : 1);
	return c;
}

static bool takes_piece(const struct choice *c, uint64_t ordinal, uint64_t change)
{
	switch (c->data) {
	case DATA_NONE: return false;
	case DATA_ALL: return true;
	case DATA_BITS: return c->bits >> change & 1;
	case DATA_RANDOM: return draw(100) < c->percent;
	case DATA_BUT_ONE: return ordinal != c->one;
	case DATA_ONLY_ONE: return ordinal == c->one;
	default: return ordinal < c->one;
	}
}

static bool takes_name(const struct choice *c, uint64_t i, uint64_t count)
{
	switch (c->names) {
	case NAMES_NONE: return false;
	case NAMES_ALL: return true;
	case NAMES_BITS: return c->bits >> i & 1;
	case NAMES_RANDOM: return draw(2);
	default: return i <= c->one % (count + 1);
	}
}

/* The file's content in this state. Its size is that after the last piece, or, if bytes are missing, sometimes another
 * one. */
static void cut_content(const struct inode *n, const struct choice *c, uint64_t *ordinal, uint64_t *change,
			struct buf *ret)
{
	uint64_t size = n->durable.len, taken_size = size;

	buf_append(ret, n->durable.data ? n->durable.data : "", n->durable.len);
	for (size_t i = 0; i < n->count; i++, ++*change) {
		const struct change *p = &n->changes[i];
		uint64_t end = p->r->offset + p->r->length;

		if (p->r->kind == RECORD_TRUNCATE) {
			if (takes_piece(c, (*ordinal)++, *change)) {
				resize_content(ret, p->r->length);
				taken_size = p->r->length;
			}
			size = p->r->length;
			continue;
		}
		uint64_t grain = c->grain ? c->grain : p->r->length + 1, at = p->r->offset;
		while (at < end) {
			uint64_t next = (at / grain + 1) * grain;

			next = c->grain && next < end ? next : end;
			if (takes_piece(c, (*ordinal)++, *change)) {
				write_content(ret, at, p->data ? p->data + (at - p->r->offset) : NULL, next - at);
				taken_size = next > taken_size ? next : taken_size;
			}
			at = next;
		}
		size = end > size ? end : size;
	}
	if (c->data == DATA_RANDOM && size != taken_size && draw(2))
		resize_content(ret, size); /* the size got there, the bytes did not */
}

static uint64_t content_hash(struct inode *n)
{
	if (!n->hash)
		n->hash = hash64(n->durable.data ? n->durable.data : "", n->durable.len, 1) | 1;
	return n->hash;
}

/* Locks and the ballast hold no data. */
static bool is_data(const char *path)
{
	return strcmp(path, "store/lock.mdb") != 0 && strcmp(path, "store/lock") != 0 &&
	       strcmp(path, "store/ballast") != 0;
}

static void collect(struct state *s, const struct name *names, size_t count, const struct inode *dir,
		    const char *prefix)
{
	for (size_t i = 0; i < count; i++) {
		if (names[i].dir != dir || !names[i].inode)
			continue;
		char *path = mem_printf("%s%s%s", prefix, *prefix ? "/" : "", names[i].name);

		s->all = mem_realloc(s->all, (s->count + 1) * sizeof *s->all);
		s->all[s->count++] = (struct entry){ .path = path, .inode = names[i].inode };
		if (S_ISDIR(names[i].inode->mode) && s->count < 100000)
			collect(s, names, count, names[i].inode, path);
	}
}

static void state_make(struct state *s, struct disk *d, const struct choice *c)
{
	struct name *names = mem_alloc((d->name_count + 1) * sizeof *names);
	size_t count = d->name_count;
	uint64_t ordinal = 0, change = d->pending_count;

	*s = (struct state){ 0 };
	memcpy(names, d->names, count * sizeof *names);
	for (size_t i = 0; i < d->pending_count; i++)
		if (takes_name(c, i, d->pending_count))
			apply_renaming(&names, &count, &d->pending[i]);
	collect(s, names, count, d->root, "");
	free(names);
	for (size_t i = 0; i < s->count; i++) {
		struct entry *e = &s->all[i];
		uint64_t h;

		if (e->inode->count && is_data(e->path)) {
			e->changed = true;
			cut_content(e->inode, c, &ordinal, &change, &e->content);
			h = hash64(e->content.data ? e->content.data : "", e->content.len, 1) | 1;
		} else {
			h = is_data(e->path) ? content_hash((struct inode *)(uintptr_t)e->inode) : 1;
		}
		s->hash += hash64(e->path, strlen(e->path), h); /* a sum: the order of entries does not matter */
	}
}

static void state_done(struct state *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->all[i].path);
		buf_done(&s->all[i].content);
	}
	free(s->all);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static void remove_tree(const char *path) { nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS); }

static void state_write(const struct state *s, const char *to)
{
	remove_tree(to);
	mkdir(to, 0700);
	for (size_t i = 0; i < s->count; i++) {
		const struct entry *e = &s->all[i];
		const struct buf *b = e->changed ? &e->content : &e->inode->durable;
		mem_auto char *path = mem_printf("%s/%s", to, e->path);
		int fd;

		if (S_ISDIR(e->inode->mode)) {
			mkdir(path, 0700);
		} else if (S_ISLNK(e->inode->mode)) {
			(void)!symlink(e->inode->target, path);
		} else if (is_data(e->path)) {
			fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
			if (fd < 0 || (b->len && write(fd, b->data, b->len) != (ssize_t)b->len)) {
				perror(path);
				_exit(3);
			}
			close(fd);
		}
	}
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

/* True if neither this disk was seen, nor this disk with as many facts. */
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
	}
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
	count = changes <= EXHAUSTIVE ? 1u << changes : 4 + options.variants;
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
		rng = options.seed ^ hash64(&point, sizeof point, v + 1);
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
	options.no_syncs |= strcmp(word, "control=syncs") == 0;
	options.no_names |= strcmp(word, "control=names") == 0;
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
