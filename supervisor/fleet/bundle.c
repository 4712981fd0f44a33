/* Both directions of the archive. A record is 512 bytes; a file's content follows its header, padded to that size. */

#include "supervisor/fleet/bundle.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD 512u
#define DEPTH_MAX 128u
#define PIECE (64u << 10)

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6],
		version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
_Static_assert(sizeof(struct header) == RECORD, "a tar header is one record");

enum { TYPE_FILE = '0', TYPE_LINK = '2', TYPE_LONG_NAME = 'L', TYPE_LONG_LINK = 'K' };

/* ---- names ---- */

void bundle_names_add(struct bundle_names *list, const char *name)
{
	if ((list->n & (list->n - 1)) == 0)
		list->names = mem_realloc(list->names, (list->n ? 2 * list->n : 1) * sizeof(*list->names));
	list->names[list->n++] = mem_strdup(name);
}

void bundle_names_done(struct bundle_names *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->names[i]);
	free(list->names);
	*list = (struct bundle_names){ 0 };
}

/* Relative, every component a real name, none of them .git: git would execute what its configuration names. */
static bool is_name_valid(const char *name)
{
	if (!name[0] || strlen(name) >= PATH_MAX)
		return false;
	for (const char *at = name;; at++) {
		size_t n = strcspn(at, "/");

		if (n == 0 || n > NAME_MAX || (n == 1 && at[0] == '.') || (n == 2 && memcmp(at, "..", 2) == 0) ||
		    (n == 4 && strncasecmp(at, ".git", 4) == 0))
			return false;
		at += n;
		if (!*at)
			return true;
	}
}

static int walk(int dir_fd, const char *prefix, unsigned depth, struct bundle_names *into, struct err *e)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	int r = 0;

	if (!dir)
		return err_sys(e, errno, "read the folder '%s'", prefix[0] ? prefix : ".");
	if (depth > DEPTH_MAX)
		r = err_set(e, ERR_EXHAUSTED, "'%s' has more than %u levels of folders", prefix, DEPTH_MAX);
	for (struct dirent *entry; r == 0;) {
		struct stat st;

		errno = 0;
		entry = readdir(dir);
		if (!entry) {
			r = errno ? err_sys(e, errno, "read the folder '%s'", prefix[0] ? prefix : ".") : 0;
			break;
		}

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    strcasecmp(entry->d_name, ".git") == 0 ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		mem_auto char *name = mem_printf("%s%s%s", prefix, prefix[0] ? "/" : "", entry->d_name);
		if (S_ISDIR(st.st_mode)) {
			fd_auto int below = openat(dirfd(dir), entry->d_name,
						   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			r = below < 0 ? err_sys(e, errno, "open the folder '%s'", name)
				      : walk(below, name, depth + 1, into, e);
		} else if (S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) {
			bundle_names_add(into, name);
		}
		if (into->n > BUNDLE_FILES_MAX)
			r = err_set(e, ERR_EXHAUSTED, "more than %u files", BUNDLE_FILES_MAX);
	}
	closedir(dir);
	return r;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int bundle_names_walk(int dir_fd, struct bundle_names *ret, struct err *e)
{
	struct bundle_names names = { 0 };

	if (walk(dir_fd, "", 0, &names, e) < 0) {
		bundle_names_done(&names);
		return -1;
	}
	if (names.n)
		qsort(names.names, names.n, sizeof(*names.names), compare_names);
	*ret = names;
	return 0;
}

/* ---- packing ---- */

struct packer {
	int out_fd;
	struct hash_sha256_stream *hash;
	struct bundle bundle;
	struct err *e;
};

static int put_bytes(struct packer *p, const void *bytes, size_t n)
{
	p->bundle.bytes += n;
	if (p->bundle.bytes > BUNDLE_BYTES_MAX)
		return err_set(p->e, ERR_EXHAUSTED, "the files need more than %llu MiB",
			       (unsigned long long)(BUNDLE_BYTES_MAX >> 20));
	hash_sha256_stream_add(p->hash, bytes, n);
	return fd_write_all(p->out_fd, bytes, n) < 0 ? err_sys(p->e, errno, "write the bundle") : 0;
}

static int put_padding(struct packer *p, uint64_t size)
{
	static const char zeros[RECORD];

	return put_bytes(p, zeros, (size_t)(-size & (RECORD - 1)));
}

static void put_octal(char *field, size_t width, uint64_t v)
{
	for (size_t i = width - 1; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

static int put_header(struct packer *p, const char *name, char type, unsigned mode, uint64_t size, uint64_t mtime,
		      const char *link)
{
	struct header h = { .type = type, .magic = "ustar", .version = { '0', '0' } };
	unsigned sum = 0;

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	if (link)
		memcpy(h.link, link, strnlen(link, sizeof(h.link)));
	put_octal(h.mode, sizeof(h.mode), mode);
	put_octal(h.uid, sizeof(h.uid), 0);
	put_octal(h.gid, sizeof(h.gid), 0);
	put_octal(h.size, sizeof(h.size), size);
	put_octal(h.mtime, sizeof(h.mtime), mtime & 077777777777ull);
	memset(h.checksum, ' ', sizeof(h.checksum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.checksum, sizeof(h.checksum), "%06o", sum & 0777777);
	return put_bytes(p, &h, sizeof(h));
}

static int put_long(struct packer *p, char type, const char *text)
{
	size_t n = strlen(text) + 1;

	if (n <= 100)
		return 0;
	return put_header(p, "././@LongLink", type, 0644, n, 0, NULL) < 0 || put_bytes(p, text, n) < 0
		       ? -1
		       : put_padding(p, n);
}

static int pack_link(struct packer *p, int dir_fd, const char *name, const struct stat *st)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target) - 1);

	if (n < 0)
		return errno == ENOENT ? 0 : err_sys(p->e, errno, "read the link '%s'", name);
	target[n] = 0;
	p->bundle.files++;
	if (put_long(p, TYPE_LONG_NAME, name) < 0 || put_long(p, TYPE_LONG_LINK, target) < 0)
		return -1;
	return put_header(p, name, TYPE_LINK, 0777, 0, (uint64_t)st->st_mtime, target);
}

/* A file that changes while it is read would give an archive with a wrong size: it is an error. */
static int pack_file(struct packer *p, int dir_fd, const char *name)
{
	fd_auto int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	char piece[PIECE];
	uint64_t left;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(p->e, errno, "read '%s'", name);
	if (!S_ISREG(st.st_mode))
		return 0;
	p->bundle.files++;
	left = (uint64_t)st.st_size;
	if (left > BUNDLE_BYTES_MAX)
		return err_set(p->e, ERR_EXHAUSTED, "'%s' is larger than %llu MiB", name,
			       (unsigned long long)(BUNDLE_BYTES_MAX >> 20));
	if (put_long(p, TYPE_LONG_NAME, name) < 0 ||
	    put_header(p, name, TYPE_FILE, st.st_mode & 0111 ? 0755 : 0644, left, (uint64_t)st.st_mtime, NULL) < 0)
		return -1;
	while (left) {
		ssize_t n = read(fd, piece, left < sizeof(piece) ? (size_t)left : sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(p->e, errno, "read '%s'", name);
		if (n == 0)
			return err_set(p->e, ERR_CONFLICT, "'%s' changed while it was read", name);
		if (put_bytes(p, piece, (size_t)n) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return put_padding(p, (uint64_t)st.st_size);
}

static int pack_one(struct packer *p, int dir_fd, const char *name)
{
	struct stat st;

	if (!is_name_valid(name))
		return err_set(p->e, ERR_INVALID, "'%s' cannot be part of a bundle", name);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(p->e, errno, "read '%s'", name);
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dir_fd, name, &st);
	return S_ISREG(st.st_mode) ? pack_file(p, dir_fd, name) : 0;
}

int bundle_pack(int dir_fd, char *const *names, size_t n, int out_fd, struct bundle *ret, struct err *e)
{
	static const char end[2 * RECORD];
	struct packer p = { .out_fd = out_fd, .hash = hash_sha256_stream_new(), .e = e };
	int r = n > BUNDLE_FILES_MAX ? err_set(e, ERR_EXHAUSTED, "more than %u files", BUNDLE_FILES_MAX) : 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = pack_one(&p, dir_fd, names[i]);
	if (r == 0)
		r = put_bytes(&p, end, sizeof(end));
	hash_sha256_stream_free(p.hash, p.bundle.sha256);
	if (r == 0)
		*ret = p.bundle;
	return r;
}

/* ---- unpacking ---- */

int bundle_verify(int in_fd, const struct bundle *expected, struct err *e)
{
	struct hash_sha256_stream *hash = hash_sha256_stream_new();
	char piece[PIECE], found[HASH_SHA256_TEXT];
	uint64_t size = 0;
	ssize_t n = 0;

	if (lseek(in_fd, 0, SEEK_SET) == 0)
		while ((n = fd_read_all(in_fd, piece, sizeof(piece))) > 0 && size <= BUNDLE_BYTES_MAX) {
			hash_sha256_stream_add(hash, piece, (size_t)n);
			size += (uint64_t)n;
		}
	hash_sha256_stream_free(hash, found);
	if (n < 0 || lseek(in_fd, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "read the bundle");
	if (size != expected->bytes || strcmp(found, expected->sha256) != 0)
		return err_set(e, ERR_CORRUPT, "the bundle %s does not have the content that its name promises",
			       expected->sha256);
	return 0;
}

struct unpacker {
	int in_fd, dir_fd;
	uint64_t bytes;
	size_t files;
	char long_name[PATH_MAX], long_link[PATH_MAX];
	struct err *e;
};

static int get_bytes(struct unpacker *u, void *bytes, size_t n)
{
	ssize_t got = fd_read_all(u->in_fd, bytes, n);

	if (got < 0)
		return err_sys(u->e, errno, "read the bundle");
	u->bytes += n;
	if ((size_t)got < n || u->bytes > BUNDLE_BYTES_MAX)
		return err_set(u->e, ERR_INVALID, "the bundle is truncated or too large");
	return 0;
}

/* Octal digits, ended by a blank or NUL; −1 on anything else. */
static int read_octal(const char *field, size_t width, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < width && field[i] >= '0' && field[i] <= '7')
		v = v * 8 + (uint64_t)(field[i++] - '0');
	if (i == 0 || i > 12 || (i < width && field[i] != ' ' && field[i] != 0))
		return -1;
	*ret = v;
	return 0;
}

static bool is_checksum_right(const struct header *h)
{
	uint64_t expected, sum = 0;

	for (size_t i = 0; i < sizeof(*h); i++)
		sum += i >= offsetof(struct header, checksum) &&
				       i < offsetof(struct header, checksum) + sizeof(h->checksum)
			       ? ' '
			       : ((const unsigned char *)h)[i];
	return read_octal(h->checksum, sizeof(h->checksum), &expected) == 0 && expected == sum;
}

/*
 * The folder of `name`, created if necessary; *ret_last: the last component. Opens one component after the other
 * without following links, so that a link of the archive leads nowhere.
 */
static int open_parent(struct unpacker *u, const char *name, const char **ret_last)
{
	int fd = openat(u->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char part[NAME_MAX + 1];

	for (size_t n; fd >= 0 && name[n = strcspn(name, "/")]; name += n + 1) {
		fd_auto int above = fd;

		snprintf(part, sizeof(part), "%.*s", (int)n, name);
		if (mkdirat(above, part, 0755) < 0 && errno != EEXIST)
			return -1;
		fd = openat(above, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	*ret_last = name;
	return fd;
}

static int unpack_content(struct unpacker *u, int fd, const char *name, uint64_t size)
{
	char piece[PIECE];

	for (uint64_t left = size; left;) {
		size_t n = left < sizeof(piece) ? (size_t)left : sizeof(piece);

		if (get_bytes(u, piece, n) < 0)
			return -1;
		if (fd_write_all(fd, piece, n) < 0)
			return err_sys(u->e, errno, "write '%s'", name);
		left -= n;
	}
	return get_bytes(u, piece, (size_t)(-size & (RECORD - 1)));
}

static int unpack_file(struct unpacker *u, const char *name, uint64_t size, uint64_t mode, uint64_t mtime)
{
	const char *last;
	fd_auto int parent = open_parent(u, name, &last);
	fd_auto int fd = parent < 0 ? -1
				    : openat(parent, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
					     mode & 0111 ? 0755 : 0644);
	const struct timespec times[2] = { { .tv_sec = (time_t)mtime }, { .tv_sec = (time_t)mtime } };

	if (fd < 0)
		return err_sys(u->e, errno, "create '%s' from the bundle", name);
	if (unpack_content(u, fd, name, size) < 0)
		return -1;
	(void)futimens(fd, times); /* only a comfort for make */
	return 0;
}

static int unpack_link(struct unpacker *u, const char *name, const char *target)
{
	const char *last;
	fd_auto int parent = open_parent(u, name, &last);

	if (parent < 0 || !target[0] || symlinkat(target, parent, last) < 0)
		return err_sys(u->e, errno, "create the link '%s' from the bundle", name);
	return 0;
}

static int read_long(struct unpacker *u, uint64_t size, char ret[PATH_MAX])
{
	char padding[RECORD];

	if (size == 0 || size > PATH_MAX)
		return err_set(u->e, ERR_INVALID, "the bundle has a name of %llu bytes", (unsigned long long)size);
	if (get_bytes(u, ret, (size_t)size) < 0 || get_bytes(u, padding, (size_t)(-size & (RECORD - 1))) < 0)
		return -1;
	return ret[size - 1] ? err_set(u->e, ERR_INVALID, "the bundle has a name without an end") : 0;
}

static int unpack_entry(struct unpacker *u, const struct header *h)
{
	char name[PATH_MAX], link[PATH_MAX];
	uint64_t size, mode, mtime;

	if (!is_checksum_right(h) || read_octal(h->size, sizeof(h->size), &size) < 0 ||
	    read_octal(h->mode, sizeof(h->mode), &mode) < 0 || read_octal(h->mtime, sizeof(h->mtime), &mtime) < 0 ||
	    size > BUNDLE_BYTES_MAX)
		return err_set(u->e, ERR_INVALID, "the bundle has an invalid header");
	if (h->type == TYPE_LONG_NAME)
		return read_long(u, size, u->long_name);
	if (h->type == TYPE_LONG_LINK)
		return read_long(u, size, u->long_link);
	snprintf(name, sizeof(name), "%.*s", u->long_name[0] ? PATH_MAX - 1 : (int)sizeof(h->name),
		 u->long_name[0] ? u->long_name : h->name);
	snprintf(link, sizeof(link), "%.*s", u->long_link[0] ? PATH_MAX - 1 : (int)sizeof(h->link),
		 u->long_link[0] ? u->long_link : h->link);
	u->long_name[0] = u->long_link[0] = 0;
	if (!is_name_valid(name))
		return err_set(u->e, ERR_INVALID, "the bundle has the invalid name '%s'", name);
	if (++u->files > BUNDLE_FILES_MAX)
		return err_set(u->e, ERR_EXHAUSTED, "the bundle has more than %u files", BUNDLE_FILES_MAX);
	if (h->type == TYPE_FILE)
		return unpack_file(u, name, size, mode, mtime);
	if (h->type == TYPE_LINK && size == 0)
		return unpack_link(u, name, link);
	return err_set(u->e, ERR_INVALID, "'%s' of the bundle is neither a file nor a link", name);
}

int bundle_unpack(int in_fd, int dir_fd, struct err *e)
{
	struct unpacker u = { .in_fd = in_fd, .dir_fd = dir_fd, .e = e };
	static const struct header zeros;
	struct header h;

	for (;;) {
		if (get_bytes(&u, &h, sizeof(h)) < 0)
			return -1;
		if (memcmp(&h, &zeros, sizeof(h)) == 0)
			return 0;
		if (unpack_entry(&u, &h) < 0)
			return -1;
	}
}
