#ifndef BAILIFF_TESTS_POWER_DISK_H
#define BAILIFF_TESTS_POWER_DISK_H

/*
 * The model of a disk on which a record (recorder.h) is replayed, and the states that a power cut leaves of it. What is
 * durable when is explained at the top of power_states.c.
 */

#include "runtime/base/buf.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "tests/prove/recorder.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define SECTOR 512u
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

/* The known-bad controls, and the random generator. */
static struct {
	bool no_syncs, no_names;
	uint64_t rng;
} model;

static inline uint64_t draw(uint64_t n)
{
	uint64_t z = (model.rng += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return n ? z % n : z;
}

/* ---- the disk as the record is replayed ---- */

static inline struct inode *find_inode(struct disk *d, uint64_t number)
{
	for (size_t i = d->inode_count; i-- > 0;) /* the newest of a number that was used again */
		if (d->inodes[i]->number == number)
			return d->inodes[i];
	return NULL;
}

static inline struct inode *add_inode(struct disk *d, uint64_t number, uint32_t mode)
{
	struct inode *n = mem_zalloc(1, sizeof *n);

	n->number = number;
	n->mode = mode;
	d->inodes = mem_realloc(d->inodes, (d->inode_count + 1) * sizeof *d->inodes);
	d->inodes[d->inode_count++] = n;
	return n;
}

static inline void set_name(struct name **names, size_t *count, struct inode *dir, const char *name, struct inode *to)
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

static inline void apply_renaming(struct name **names, size_t *count, const struct renaming *r)
{
	if (r->from.name)
		set_name(names, count, r->from.dir, r->from.name, NULL);
	if (r->to.name)
		set_name(names, count, r->to.dir, r->to.name, r->to.inode);
}

static inline bool same_place(const struct name *a, const struct name *b)
{
	return a->name && b->name && a->dir == b->dir && strcmp(a->name, b->name) == 0;
}

/* Makes it durable. Earlier changes of the same names no longer matter. */
static inline void settle_renaming(struct disk *d, size_t at)
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

static inline void write_content(struct buf *b, uint64_t at, const char *data, uint64_t n)
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

static inline void resize_content(struct buf *b, uint64_t size)
{
	if (size > b->len)
		write_content(b, size, NULL, 0);
	else
		b->len = size;
}

static inline void apply_change(struct buf *b, const struct change *c)
{
	if (c->r->kind == RECORD_TRUNCATE)
		resize_content(b, c->r->length);
	else
		write_content(b, c->r->offset, c->data, c->r->length);
}

static inline void sync_file(struct inode *n)
{
	for (size_t i = 0; i < n->count; i++)
		apply_change(&n->durable, &n->changes[i]);
	n->count = 0;
	n->hash = 0;
}

static inline void sync_names(struct disk *d, const struct inode *dir)
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

static inline void add_change(struct inode *n, const struct record *r)
{
	struct change c = { .r = r, .data = r->has_data ? (const char *)(r + 1) + r->names : NULL };

	if (r->synced && !model.no_syncs) { /* O_DSYNC: this range, and not what was written before */
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

static inline void add_renaming(struct disk *d, struct renaming r)
{
	d->pending = mem_realloc(d->pending, (d->pending_count + 1) * sizeof *d->pending);
	d->pending[d->pending_count++] = r;
}

static inline void replay_sync(struct disk *d, const struct record *r)
{
	struct inode *n = find_inode(d, r->inode);

	if (r->kind == RECORD_SYNC && n && S_ISDIR(n->mode)) {
		if (!model.no_names)
			sync_names(d, n);
	} else if (r->kind == RECORD_SYNC) {
		if (n && !model.no_syncs)
			sync_file(n);
	} else {
		for (size_t i = 0; i < d->inode_count; i++)
			sync_file(d->inodes[i]);
		sync_names(d, NULL);
	}
}

/* Names outside of the recorded directories lead nowhere: what happens there is ignored. */
static inline void replay_name(struct disk *d, const struct record *r)
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

static inline void replay(struct disk *d, const struct record *r)
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

static inline void disk_done(struct disk *d)
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

/* Which unsynced changes a state contains. */
struct choice {
	enum { DATA_NONE, DATA_ALL, DATA_BITS, DATA_RANDOM, DATA_BUT_ONE, DATA_ONLY_ONE, DATA_PREFIX } data;
	enum { NAMES_NONE, NAMES_ALL, NAMES_BITS, NAMES_RANDOM, NAMES_PREFIX } names;
	uint32_t grain; /* 0 = whole writes */
	uint64_t bits;  /* DATA_BITS, NAMES_BITS: by ordinal, names first */
	uint64_t one, percent;
};

static inline struct choice choose(uint64_t variant, uint64_t changes, uint64_t pieces)
{
	static const uint32_t grains[] = { 0, PAGE, SECTOR };
	static const uint64_t percents[] = { 50, 10, 90 };
	struct choice c = { 0 };

	if (changes <= EXHAUSTIVE && variant < 1u << changes)
		return (struct choice){ .data = DATA_BITS, .names = NAMES_BITS, .bits = variant };
	if (changes > EXHAUSTIVE && variant < 4) {
		c.data = variant & 1 ? DATA_ALL : DATA_NONE;
		c.names = variant & 2 ? NAMES_ALL : NAMES_NONE;
		return c;
	}
	c.data = DATA_RANDOM + draw(4);
	c.names = draw(2) ? NAMES_RANDOM : draw(2) ? NAMES_PREFIX : NAMES_ALL;
	c.grain = grains[draw(3)];
	c.percent = percents[draw(3)];
	c.one = draw((pieces ? pieces : 1) * (c.grain == SECTOR ? PAGE / SECTOR : 1));
	return c;
}

static inline bool takes_piece(const struct choice *c, uint64_t ordinal, uint64_t change)
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

static inline bool takes_name(const struct choice *c, uint64_t i, uint64_t count)
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
static inline void cut_content(const struct inode *n, const struct choice *c, uint64_t *ordinal, uint64_t *change,
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
		resize_content(ret, size); /* the size is durable, the bytes are not */
}

static inline uint64_t content_hash(struct inode *n)
{
	if (!n->hash)
		n->hash = hash64(n->durable.data ? n->durable.data : "", n->durable.len, 1) | 1;
	return n->hash;
}

/* Locks and the ballast hold no data. */
static inline bool is_data(const char *path)
{
	return strcmp(path, "store/lock.mdb") != 0 && strcmp(path, "store/lock") != 0 &&
	       strcmp(path, "store/ballast") != 0;
}

static inline void collect(struct state *s, const struct name *names, size_t count, const struct inode *dir,
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

static inline void state_make(struct state *s, struct disk *d, const struct choice *c)
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

static inline void state_done(struct state *s)
{
	for (size_t i = 0; i < s->count; i++) {
		free(s->all[i].path);
		buf_done(&s->all[i].content);
	}
	free(s->all);
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *f) { return remove(path); }

static inline void remove_tree(const char *path) { nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS); }

static inline void state_write(const struct state *s, const char *to)
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

#endif
