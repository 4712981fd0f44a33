#include "sandbox/autorun_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define SLACK_S                                                                                                      \
	2 /* tolerance between the clock and file times, which may come from another machine's clock or a coarse one \
	   */

bool autorun_applies(const struct plan_head *plan)
{
	for (uint32_t i = 0; plan->flags & PLAN_PRIVATE_ROOT && i < plan->mount_count; i++) {
		if (plan_mount(plan, i)->kind == PLAN_MOUNT_WRITE)
			return true;
	}
	return false;
}

struct autorun *autorun_new(const struct plan_head *plan)
{
	void *p = mmap(NULL, sizeof(struct autorun), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct autorun *a = p == MAP_FAILED ? NULL : p;
	if (a) {
		a->plan = plan;
		a->self_fds = -1;
	}
	return a;
}

void autorun_use_fds(struct autorun *a, int self_fds) { a->self_fds = self_fds; }

static void clear_set(struct autorun_set *s)
{
	if (s->count)
		memset(s->slot, 0, sizeof s->slot);
	s->count = 0;
}

/* `search` begins anew with each search, and the rest of the space is used only up to the counters. */
void autorun_reset(struct autorun *a, const struct plan_head *plan)
{
	a->plan = plan;
	clear_set(&a->before);
	clear_set(&a->found);
	a->again = a->led = false;
	a->partial = a->partial_before = 0;
	a->changes = a->text_used = 0;
}

void autorun_before(struct autorun *a)
{
	clock_gettime(CLOCK_REALTIME, &a->began);
	autorun_search(a);
	a->partial_before = a->partial;
}

static bool same_text(const struct autorun_file *a, const struct autorun_file *b)
{
	char digest[HASH_SHA256_TEXT];
	if (a->kept == b->kept)
		return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
	/* One of the two was not kept because the space was exhausted. */
	const struct autorun_file *kept = a->kept ? a : b, *other = a->kept ? b : a;
	hash_sha256_text(kept->text, kept->len, digest);
	return other->len == strlen(digest) && memcmp(other->text, digest, other->len) == 0;
}

static bool file_equal(const struct autorun_file *a, const struct autorun_file *b)
{
	return a->type == b->type && a->mode == b->mode && same_text(a, b);
}

static void add_change(struct autorun *a, const struct autorun_file *before, const struct autorun_file *after)
{
	if (a->changes == AUTORUN_FILES_MAX)
		a->partial |= AUTORUN_PARTIAL_FILES;
	else
		a->change[a->changes++] = (struct autorun_change){ before, *after };
}

/* Compares the files that were found before, by path. Unchanged text needs no space. */
static void compare_known(struct autorun *a)
{
	for (uint32_t i = 0; i < a->before.count; i++) {
		const struct autorun_file *before = &a->before.file[i];
		struct autorun_file now = { .path = before->path, .program = before->program };
		uint32_t used = a->text_used;
		autorun_examine(a, AT_FDCWD, before->path, &now);
		if (file_equal(before, &now))
			a->text_used = used;
		else
			add_change(a, before, &now);
	}
}

/*
 * Files found only by the second search are new, unless the first search was incomplete and the file is older than the
 * command. Where the first search may not have reached, the file may have existed before: a revert must not remove it.
 */
static void compare_found(struct autorun *a)
{
	static const struct autorun_file unknown = { .type = AUTORUN_TYPE_FILE };
	for (uint32_t i = 0; i < a->found.count; i++) {
		const struct autorun_file *f = &a->found.file[i];
		if (!a->partial_before || f->led || f->changed.tv_sec + SLACK_S >= a->began.tv_sec)
			add_change(a, a->partial_before || f->led ? &unknown : NULL, f);
	}
}

bool autorun_after(struct autorun *a)
{
	a->again = true;
	compare_known(a);
	autorun_search(a);
	compare_found(a);
	return a->changes || a->partial;
}

static struct autorun_version version_of(const struct autorun_file *f)
{
	if (!f)
		return (struct autorun_version){ .type = AUTORUN_TYPE_NONE, .text = "" };
	return (struct autorun_version){
		.type = f->type, .mode = f->mode, .kept = f->kept, .text = f->text ? f->text : "", .len = f->len
	};
}

void autorun_write(const struct autorun *a, uint32_t uid, uint32_t gid, const uint8_t key[AUTORUN_KEY_BYTES],
		   struct buf *out)
{
	autorun_report_begin(out);
	for (uint32_t i = 0; i < a->changes; i++) {
		const struct autorun_change *c = &a->change[i];
		const struct autorun_record r = { .path = c->after.path,
						  .path_len = strlen(c->after.path),
						  .program = c->after.program,
						  .program_len = strlen(c->after.program),
						  .before = version_of(c->before),
						  .after = version_of(&c->after) };
		autorun_report_add(out, &r);
	}
	autorun_report_end(out, uid, gid, a->partial, key);
}
