/*
 * Checks the structure of data.mdb without LMDB.
 *
 * Why it exists: LMDB maps the file and follows page numbers and node offsets without checking them, so a flipped bit
 * or a truncated file makes it read or, in a write transaction, write outside of a page or of the file. The runtime
 * would crash in a loop at every start, with no hint that a backup is needed, or damage more data. LMDB has no checker:
 * mdb_stat and mdb_copy follow the same pointers. The checksums of records and sealed values are inside those pages, so
 * they protect only what can be reached at all. Without this file test_verify.c, which flips bits all over a database,
 * ends with SIGSEGV in LMDB.
 *
 * It reads pages with pread and checks each one that LMDB would follow: all of them in verify, and at open as many as a
 * budget allows. It knows LMDB's data format 1, which all of LMDB 0.9 writes.
 */

#include "runtime/store/lmdb_check.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/store_dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define META_MAGIC 0xBEEFC0DEu
#define META_FORMAT 1u
#define PAGE_MIN 256u
#define PAGE_MAX 65536u
#define DEPTH_MAX 32
#define KEY_MAX 511u
#define NO_PAGE UINT64_MAX

enum { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum { NODE_BIG = 0x01, NODE_SUB = 0x02 };
enum { TREE_INTEGER_KEY = 0x08 };

struct page_head {
	uint64_t number;
	uint16_t pad;
	uint16_t flags;
	uint16_t lower, upper; /* in an overflow page: together the number of pages */
};

struct node_head {
	uint16_t lo, hi;
	uint16_t flags;
	uint16_t key_size;
};

struct tree {
	uint32_t pad;
	uint16_t flags;
	uint16_t depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries;
	uint64_t root;
};

struct meta {
	uint32_t magic, format;
	uint64_t address, map_size;
	struct tree trees[2]; /* free pages; main */
	uint64_t last_page, txn_id;
};

struct check {
	int fd;
	uint32_t size;
	uint64_t last; /* page number */
	uint64_t seen;
	uint64_t budget; /* pages */
	struct err *e;
};

static int set_corrupt(struct check *p, uint64_t page, const char *what)
{
	return err_set(p->e, ERR_CORRUPT, "page %llu: %s", (unsigned long long)page, what);
}

static int read_page(struct check *p, uint64_t number, unsigned char *dst, struct page_head *ret)
{
	ssize_t n;

	if (number < 2 || number > p->last)
		return set_corrupt(p, number, "is referenced, but not in the file");
	if (p->seen++ > p->last)
		return set_corrupt(p, number, "the pages form a cycle");
	n = fd_pread_all(p->fd, dst, p->size, number * p->size);
	if (n < 0)
		return err_sys(p->e, errno, "read page %llu", (unsigned long long)number);
	if ((size_t)n != p->size)
		return set_corrupt(p, number, "is truncated");
	memcpy(ret, dst, sizeof(*ret));
	if (ret->number != number)
		return set_corrupt(p, number, "has the number of another page");
	return 0;
}

static int check_overflow(struct check *p, uint64_t number, uint64_t bytes, unsigned char *page)
{
	struct page_head h;
	uint64_t count;

	if (read_page(p, number, page, &h) != 0)
		return -1;
	count = (uint64_t)h.lower | (uint64_t)h.upper << 16;
	if (h.flags != PAGE_OVERFLOW || count == 0 || count > p->last - number + 1)
		return set_corrupt(p, number, "is not an overflow page");
	if (bytes > count * p->size - sizeof(h))
		return set_corrupt(p, number, "a value is longer than its pages");
	p->seen += count - 1;
	return 0;
}

/* A node of a page; `data` follows the key. */
struct node {
	struct node_head head;
	const unsigned char *key, *data;
	uint64_t data_size;
	size_t data_max; /* bytes from data to the end of the page */
};

/* Offsets are checked before anything at them is read. */
static int get_node(struct check *p, const unsigned char *page, const struct page_head *h, unsigned i, struct node *ret)
{
	uint16_t at;

	memcpy(&at, page + sizeof(*h) + i * 2, sizeof(at));
	if (at < h->upper || (at & 1) || (size_t)at + sizeof(ret->head) > p->size)
		return set_corrupt(p, h->number, "a node is outside of the page");
	memcpy(&ret->head, page + at, sizeof(ret->head));
	if (ret->head.key_size > KEY_MAX || (size_t)at + sizeof(ret->head) + ret->head.key_size > p->size)
		return set_corrupt(p, h->number, "a key is outside of the page");
	ret->key = page + at + sizeof(ret->head);
	ret->data = ret->key + ret->head.key_size;
	ret->data_size = (uint64_t)ret->head.lo | (uint64_t)ret->head.hi << 16;
	ret->data_max = (size_t)(page + p->size - ret->data);
	return 0;
}

/* Whether keys ascend. Those of the free list are numbers. */
static bool keys_ascend(const struct node *before, const struct node *now, unsigned tree_flags)
{
	size_t a = before->head.key_size, b = now->head.key_size;
	int cmp;

	if (tree_flags & TREE_INTEGER_KEY) {
		uint64_t x = 0, y = 0;

		if (a != sizeof(x) || b != sizeof(y))
			return false;
		memcpy(&x, before->key, sizeof(x));
		memcpy(&y, now->key, sizeof(y));
		return x < y;
	}
	cmp = memcmp(before->key, now->key, a < b ? a : b);
	return cmp < 0 || (cmp == 0 && a < b);
}

static int check_tree(struct check *p, const struct tree *t, bool is_free, bool is_main);

static int check_leaf_node(struct check *p, const struct page_head *h, const struct node *n, bool is_free, bool is_main,
			   unsigned char *spare)
{
	struct tree sub;
	uint64_t count, big;

	if (n->head.flags & NODE_BIG) {
		if (n->head.flags != NODE_BIG || n->data_max < sizeof(big))
			return set_corrupt(p, h->number, "a node is malformed");
		memcpy(&big, n->data, sizeof(big));
		return check_overflow(p, big, n->data_size, spare);
	}
	if (n->data_size > n->data_max)
		return set_corrupt(p, h->number, "a value is outside of the page");
	if (n->head.flags & NODE_SUB) {
		if (!is_main || n->head.flags != NODE_SUB || n->data_size != sizeof(sub))
			return set_corrupt(p, h->number, "a table's entry is malformed");
		memcpy(&sub, n->data, sizeof(sub));
		return check_tree(p, &sub, false, false);
	}
	if (n->head.flags != 0)
		return set_corrupt(p, h->number, "a node is malformed");
	if (is_free) {
		if (n->data_size < sizeof(count))
			return set_corrupt(p, h->number, "a free list is malformed");
		memcpy(&count, n->data, sizeof(count));
		if (count > n->data_size / sizeof(count) - 1)
			return set_corrupt(p, h->number, "a free list is longer than its value");
	}
	return 0;
}

static int check_page(struct check *p, const struct tree *t, uint64_t number, unsigned level, bool is_free,
		      bool is_main, uint64_t *entries)
{
	mem_auto unsigned char *page = mem_alloc(p->size), *spare = NULL;
	bool leaf = level == t->depth;
	struct node before = { 0 };
	struct page_head h;
	unsigned count;

	if (p->seen >= p->budget)
		return 0;
	if (read_page(p, number, page, &h) != 0)
		return -1;
	if (h.flags != (leaf ? PAGE_LEAF : PAGE_BRANCH))
		return set_corrupt(p, number, leaf ? "is not a leaf" : "is not a branch");
	if (h.lower < sizeof(h) || (h.lower & 1) || h.lower > h.upper || h.upper > p->size)
		return set_corrupt(p, number, "its head is malformed");
	count = (h.lower - (unsigned)sizeof(h)) / 2;
	if (count < (leaf || is_free ? 1u : 2u))
		return set_corrupt(p, number, "has too few nodes");
	if (leaf)
		spare = mem_alloc(p->size);
	for (unsigned i = 0; i < count; i++) {
		struct node n;
		int rc;

		if (get_node(p, page, &h, i, &n) != 0)
			return -1;
		if (i > (leaf ? 0u : 1u) &&
		    /* the first key of a branch is not used */ !keys_ascend(&before, &n, t->flags))
			return set_corrupt(p, number, "its keys are not in order");
		before = n;
		if (leaf)
			rc = check_leaf_node(p, &h, &n, is_free, is_main, spare);
		else
			rc = check_page(p, t, n.data_size | (uint64_t)n.head.flags << 32, level + 1, is_free, is_main,
					entries);
		if (rc != 0)
			return -1;
	}
	if (leaf)
		*entries += count;
	return 0;
}

static int check_tree(struct check *p, const struct tree *t, bool is_free, bool is_main)
{
	uint64_t entries = 0;

	if (t->root == NO_PAGE)
		return t->entries == 0 && t->depth == 0
			       ? 0
			       : err_set(p->e, ERR_CORRUPT, "a table has entries but no pages");
	if (t->depth == 0 || t->depth > DEPTH_MAX || (t->flags & ~TREE_INTEGER_KEY) || (t->flags && !is_free))
		return err_set(p->e, ERR_CORRUPT, "a table's description is malformed");
	if (check_page(p, t, t->root, 1, is_free, is_main, &entries) != 0)
		return -1;
	if (entries != t->entries && p->seen < p->budget)
		return err_set(p->e, ERR_CORRUPT, "a table has %llu entries instead of %llu",
			       (unsigned long long)entries, (unsigned long long)t->entries);
	return 0;
}

static bool read_meta(int fd, uint64_t at, uint32_t page_size, struct meta *ret)
{
	unsigned char raw[sizeof(struct page_head) + sizeof(struct meta)];
	struct page_head h;

	if (pread(fd, raw, sizeof(raw), (off_t)at) != (ssize_t)sizeof(raw))
		return false;
	memcpy(&h, raw, sizeof(h));
	memcpy(ret, raw + sizeof(h), sizeof(*ret));
	if (ret->magic != META_MAGIC || ret->format != META_FORMAT || h.flags != PAGE_META)
		return false;
	return !page_size || ret->trees[0].pad == page_size;
}

/* LMDB uses the meta page with the larger transaction id, and the page size of the first one. */
int lmdb_check_fd(int fd, uint64_t txn_id, uint64_t budget, struct err *e)
{
	struct meta metas[2];
	const struct meta *m;
	struct check p = { .fd = fd, .e = e };
	struct stat st;

	if (!read_meta(fd, 0, 0, &metas[0]))
		return err_set(e, ERR_CORRUPT, "it is not an LMDB database");
	p.size = metas[0].trees[0].pad;
	if (p.size < PAGE_MIN || p.size > PAGE_MAX || (p.size & (p.size - 1)))
		return err_set(e, ERR_CORRUPT, "its page size is %u", p.size);
	if (!read_meta(fd, p.size, p.size, &metas[1]))
		return err_set(e, ERR_CORRUPT, "its second meta page is malformed");
	m = &metas[metas[0].txn_id < metas[1].txn_id];
	if (txn_id) {
		m = metas[0].txn_id == txn_id ? &metas[0] : metas[1].txn_id == txn_id ? &metas[1] : NULL;
		if (!m)
			return 1;
	}
	/* After the meta page: a writer may extend the file meanwhile, and never shortens it. */
	if (fstat(fd, &st) != 0)
		return err_sys(e, errno, "stat");
	p.last = m->last_page;
	p.budget = budget / p.size;
	const uint64_t pages = (uint64_t)st.st_size / p.size;
	if (p.last < 1 || p.last > (uint64_t)INT64_MAX / p.size - 1 || pages < 2)
		return err_set(e, ERR_CORRUPT, "it has %llu bytes and should have %llu pages",
			       (unsigned long long)st.st_size, (unsigned long long)p.last + 1);
	/*
	 * LMDB does not write a page that a transaction took and freed again, so a file may end before its last page.
	 * Then all pages are checked: no table may refer to one that is missing.
	 */
	if (pages <= p.last) {
		p.last = pages - 1;
		p.budget = UINT64_MAX;
	}
	struct tree free_tree = m->trees[0], main_tree = m->trees[1];
	free_tree.flags &= TREE_INTEGER_KEY; /* LMDB also stores the flags of the environment there */
	if (check_tree(&p, &free_tree, true, false) != 0 || check_tree(&p, &main_tree, false, true) != 0)
		return -1;
	return 0;
}

/* A crash during the creation of the file leaves it empty or with a few pages of zeroes: it never had data. */
static bool is_blank(int fd, uint64_t size)
{
	mem_auto unsigned char *p = NULL;
	ssize_t n;

	if (size > 2 * PAGE_MAX)
		return false;
	p = mem_zalloc(1, 2 * PAGE_MAX);
	n = pread(fd, p, 2 * PAGE_MAX, 0);
	for (ssize_t i = 0; i < n; i++)
		if (p[i])
			return false;
	return n >= 0;
}

int lmdb_check_file(int dir_fd, uint64_t budget, struct err *e)
{
	fd_auto int fd = openat(dir_fd, STORE_DIRS_DATA, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 1 : err_sys(e, errno, "open");
	if (fstat(fd, &st) != 0)
		return err_sys(e, errno, "stat");
	if (is_blank(fd, (uint64_t)st.st_size))
		return 1;
	return lmdb_check_fd(fd, 0, budget, e);
}
