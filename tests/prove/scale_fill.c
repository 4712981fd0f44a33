/*
 * Fills a store quickly with the events of many processes, for tests/prove/scale.py.
 *
 *   scale_fill HOME PROCESSES EVENTS <TEMPLATE
 *
 * The template has the events of one process that a daemon ran, one a line: type, status, ids (member=id,…), further
 * members and payload, separated by tabs. Where an id of that run stood there are 16 '#', which become the number of
 * the process. A line that begins with '*' is repeated, so that there are EVENTS in all. The store's own code encodes,
 * projects and commits them, as in the daemon; nothing else is synthetic.
 */
#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINES_MAX 64
#define MARK "################"
#define BATCH_EVENTS 400
#define BATCHES_QUEUED 8

static void fail(const char *what, const struct err *e)
{
	fprintf(stderr, "scale_fill: %s: %s\n", what, e ? e->message : "");
	exit(1);
}

static void wait_below(struct store *store, size_t count)
{
	while (store_queued(store) > count) {
		struct pollfd p = { .fd = store_dispatch_fd(store), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(store);
	}
}

static void committed(void *ctx, const struct store_result *r)
{
	if (r->status != 0)
		fail("commit", r->err);
}

struct filler {
	struct store *store;
	struct store_batch *batch;
	unsigned in_batch;
	uint64_t real_us, events;
};

static void submit(struct filler *f)
{
	if (f->batch)
		store_submit(f->store, f->batch, 0, committed, NULL);
	f->batch = NULL;
	f->in_batch = 0;
	wait_below(f->store, BATCHES_QUEUED);
}

static void set_ids(struct event_draft *d, char *text)
{
	char *rest = NULL;

	for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		char *value = strchr(word, '=');

		*value++ = '\0';
		for (int i = 0; i < ID_FIELD_COUNT; i++)
			if (strcmp(id_field_member((enum id_field)i), word) == 0)
				d->ids[i] = value;
	}
}

/* One event of process `number`. */
static void add_line(struct filler *f, const char *template, uint64_t number)
{
	mem_auto char *line = mem_strdup(template);
	char digits[17], *part[5], *rest = line;
	struct event_draft d = { .uid = getuid(), .real_us = f->real_us += 20 };
	struct err e = ERR_INIT;
	int type;

	snprintf(digits, sizeof digits, "%016llu", (unsigned long long)number);
	for (char *at = line; (at = strstr(at, MARK)); at += 16)
		memcpy(at, digits, 16);
	for (int i = 0; i < 5; i++)
		part[i] = strsep(&rest, "\t");
	type = event_type_find(part[0], strlen(part[0]));
	if (type < 0 || !part[4])
		fail("the template has a line that is not valid", NULL);
	d.type = (enum event_type)type;
	d.status = part[1][0] ? part[1] : NULL;
	set_ids(&d, part[2]);
	d.members = part[3][0] ? part[3] : NULL;
	d.members_len = strlen(part[3]);
	d.payload = part[4];
	d.payload_len = strlen(part[4]);
	if (!f->batch)
		f->batch = store_batch_new(f->store);
	if (store_batch_event(f->batch, &d, &e) != 0)
		fail(part[0], &e);
	f->events++;
	if (++f->in_batch == BATCH_EVENTS)
		submit(f);
}

static size_t read_template(char **lines)
{
	size_t count = 0, size = 0;
	char *line = NULL;
	ssize_t n;

	while (count < LINES_MAX && (n = getline(&line, &size, stdin)) > 0) {
		line[n - 1] = '\0';
		lines[count++] = mem_strdup(line);
	}
	free(line);
	return count;
}

int main(int argc, char **argv)
{
	static char *lines[LINES_MAX];
	struct err e = ERR_INIT;

	if (argc != 4)
		fail("usage: scale_fill HOME PROCESSES EVENTS <TEMPLATE", NULL);
	log_setup("scale_fill", LOG_LEVEL_ERROR, false);
	mem_auto char *dir = mem_printf("%s/store", argv[1]), *spool = mem_printf("%s/spool", argv[1]);
	const struct store_options o = { .dir = dir,
					 .spool_dir = spool,
					 .map_bytes = (size_t)64 << 30,
					 .ballast_bytes = 4096,
					 .project = view_project,
					 .growing_models = view_growing_kinds,
					 .project_speculative = view_project_speculative };
	uint64_t processes = strtoull(argv[2], NULL, 10), events = strtoull(argv[3], NULL, 10), base;
	size_t count = read_template(lines);
	struct filler f = { 0 };

	if (store_open(&o, &f.store, &e) != 0)
		fail("open the store", &e);
	base = store_last_sequence(f.store);
	f.real_us = clock_real_us() - (uint64_t)events * 20 - 60000000;
	for (uint64_t p = 0; p < processes; p++)
		for (size_t i = 0; i < count; i++) {
			bool repeated = lines[i][0] == '*';
			uint64_t times = repeated && events / processes > count ? events / processes - count + 1 : 1;

			for (uint64_t k = 0; k < times; k++)
				add_line(&f, lines[i] + repeated, base + p);
		}
	submit(&f);
	wait_below(f.store, 0);
	store_flush(f.store);
	printf("%llu\n", (unsigned long long)store_last_sequence(f.store));
	store_close(f.store);
	return 0;
}
