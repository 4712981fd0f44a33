#include "supervisor/spawner/mount_watch.h"

#include "sandbox/steps/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_mounts(int fd, struct buf *ret)
{
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	do {
		n = read(fd, buf_reserve(ret, 4096), 4096);
		ret->len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	return (int)n;
}

int mount_watch_init(struct mount_watch *w)
{
	*w = (struct mount_watch){ .fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC) };
	if (w->fd < 0 || read_mounts(w->fd, &w->known) < 0)
		return -1;
	/* What was lost after the open is not among the known ones. */
	struct pollfd p = { .fd = w->fd, .events = POLLPRI };
	if (poll(&p, 1, 0) == 0)
		return 0;
	errno = ESTALE;
	return -1;
}

/* A part of a text of mountinfo. */
struct part {
	const char *at;
	size_t len;
};

/* Removes the beginning of `text`, up to and with the next `end`, and returns it. */
static struct part take_part(struct part *text, char end)
{
	const char *found = memchr(text->at, end, text->len);
	struct part r = { text->at, found ? (size_t)(found + 1 - text->at) : text->len };

	text->at += r.len;
	text->len -= r.len;
	return r;
}

static bool part_is(struct part a, struct part b) { return a.len == b.len && memcmp(a.at, b.at, a.len) == 0; }

/* The words of "36 35 0:52 ROOT PLACE …", each with the blank after it. */
enum { WORD_DEVICE = 2, WORD_ROOT, WORD_PLACE };

static bool word_is(struct part line, int index, struct part wanted)
{
	while (index-- > 0)
		take_part(&line, ' ');
	return part_is(take_part(&line, ' '), wanted);
}

/* The device of the sandbox's own root directory, in which only its steps can have created a file. */
static struct part root_device(struct part mounts)
{
	struct part device = { "", 0 };

	while (mounts.len) {
		struct part line = take_part(&mounts, '\n');

		if (!word_is(line, WORD_PLACE, (struct part){ "/ ", 2 }))
			continue;
		for (int i = 0; i <= WORD_DEVICE; i++)
			device = take_part(&line, ' ');
	}
	return device;
}

static bool is_resolver(struct part line, struct part device)
{
	static const char root[] = "/" STEP_RESOLVER_COPY "//deleted ";

	return word_is(line, WORD_DEVICE, device) && word_is(line, WORD_ROOT, (struct part){ root, sizeof root - 1 });
}

/* Blanks and some others are \ooo there. Of a path that is too long, the end says more. */
static void copy_place(struct part line, char *ret, size_t size)
{
	struct part place = { "", 0 };
	char path[PATH_MAX];
	size_t n = 0;

	for (int i = 0; i <= WORD_PLACE; i++)
		place = take_part(&line, ' ');
	for (const char *p = place.at, *end = p + place.len; p < end && *p != ' ' && n < sizeof path - 1; n++) {
		const bool escaped = *p == '\\' && end - p > 4;
		path[n] = escaped ? (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0')) : *p;
		p += escaped ? 4 : 1;
	}
	path[n] = '\0';
	snprintf(ret, size, "%s", n < size ? path : path + n - (size - 1));
}

bool mount_watch_is_intact(struct mount_watch *w, char *ret_lost, size_t size)
{
	struct buf now = BUF_INIT;
	bool intact = read_mounts(w->fd, &now) == 0 && now.len > 0;
	struct part is = { now.data, now.len }, was = { w->known.data, w->known.len };
	const struct part device = root_device(was);

	while (intact && was.len) {
		struct part line = take_part(&was, '\n'), rest = is;

		if (is.len && part_is(take_part(&rest, '\n'), line)) {
			is = rest;
		} else if (!is_resolver(line, device)) {
			copy_place(line, ret_lost, size);
			intact = false;
		}
	}
	if (intact && is.len) {
		copy_place(is, ret_lost, size);
		intact = false;
	}
	buf_done(&w->known);
	w->known = now;
	return intact;
}
