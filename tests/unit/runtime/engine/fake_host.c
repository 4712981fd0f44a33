#include "tests/unit/runtime/engine/fake_host.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"
#include "sandbox/workspace.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const struct caller fake_caller = {
	.uid = 1000, .gid = 1000, .pid = 77, .role = ROLE_OPERATOR, .connection = 5, .peer_fd = -1, .request_id = "1"
};

struct fake_process *fake_find(struct fake_host *w, const char *id)
{
	for (size_t i = 0; i < w->nprocesses; i++)
		if (strcmp(w->processes[i].id, id) == 0)
			return &w->processes[i];
	return NULL;
}

struct fake_process *fake_last(struct fake_host *w)
{
	ck_assert_uint_gt(w->nprocesses, 0);
	return &w->processes[w->nprocesses - 1];
}

static uint64_t real_us(void *host)
{
	const struct fake_host *w = host;

	return 1700000000000000ull + w->boot_ns / 1000 + w->real_jump_us;
}

static uint64_t boot_ns(void *host) { return ((struct fake_host *)host)->boot_ns; }

static void wake_at(void *host, uint64_t at)
{
	struct fake_host *w = host;

	if (at < w->wake_ns)
		w->wake_ns = at;
}

static void base_env(void *host, uint32_t uid, struct buf *out) { buf_append(out, "PATH=/bin", sizeof "PATH=/bin"); }

static struct fake_process *fake_add(struct fake_host *w, const char *id, const struct port_streams *streams)
{
	struct fake_process *p = &w->processes[w->nprocesses++];

	ck_assert_uint_le(w->nprocesses, FAKE_PROCESSES);
	*p = (struct fake_process){ .streams = *streams,
				    .spool_fd = { -1, -1, -1 },
				    .stdin_room = SIZE_MAX,
				    .line = { .echo = true, .canonical = true, .eof = 4 } };
	snprintf(p->id, sizeof p->id, "%s", id);
	return p;
}

static void launch(void *host, const char *id, const void *plan, size_t len, uint32_t flags,
		   const struct port_streams *streams, int peer_fd)
{
	struct err e = ERR_INIT;

	ck_assert_msg(plan_check(plan, len, &e) == 0, "%s", e.message);
	struct fake_process *p = fake_find(host, id);
	if (p) { /* launched again after a crash */
		p->streams = *streams;
		p->launches++;
	} else {
		p = fake_add(host, id, streams);
		p->launches = 1;
	}
	p->plan_flags = flags;
}

static void open_gate(void *host, const char *id) { fake_find(host, id)->gate_open = true; }

static void send_signal(void *host, const char *id, int sig) { fake_find(host, id)->signals |= 1ull << (sig - 1); }

static void kill_tree(void *host, const char *id) { fake_find(host, id)->kill_tree = true; }

static void kill_init(void *host, const char *id) { fake_find(host, id)->killed = true; }

static ssize_t write_stdin(void *host, const char *id, const void *p, size_t n)
{
	struct fake_process *f = fake_find(host, id);

	n = n < f->stdin_room ? n : f->stdin_room;
	buf_append(&f->input, p, n);
	f->stdin_room -= n;
	return (ssize_t)n;
}

static void close_stdin(void *host, const char *id) { fake_find(host, id)->stdin_closed = true; }

static void close_output(void *host, const char *id, int stream) {}

static int line(void *host, const char *id, struct port_line *ret)
{
	*ret = fake_find(host, id)->line;
	return 0;
}

static int resize(void *host, const char *id, uint32_t rows, uint32_t cols)
{
	struct fake_process *p = fake_find(host, id);

	p->rows = rows;
	p->cols = cols;
	return 0;
}

static ssize_t peek_output(void *host, const char *id, int stream, uint64_t offset, void *p, size_t n)
{
	struct fake_process *f = fake_find(host, id);

	return f->spool_fd[stream] < 0 ? 0 : pread(f->spool_fd[stream], p, n, (off_t)offset);
}

static int output_fd(void *host, const char *id, int stream) { return fake_find(host, id)->spool_fd[stream]; }

static void stop_reading(void *host, const char *id) { fake_find(host, id)->reading_stopped = true; }

static void release(void *host, const char *id, unsigned unspilled)
{
	struct fake_process *p = fake_find(host, id);

	p->released = true;
	p->unspilled = unspilled;
}

static void add_peer(void *host, uint32_t uid, int peer_fd) {}

/* Every uid has connected before, unless a test says otherwise. */
static int find_peer(void *host, uint32_t uid)
{
	const struct fake_host *w = host;

	return w->nobody ? -1 : 0;
}

static int policy_of(void *host, const struct policy_key *at, const struct policy_rules **ret, struct err *e)
{
	struct fake_host *w = host;

	w->policies++;
	if (w->policy_problem)
		return err_set(e, ERR_UNAVAILABLE, "%s", w->policy_problem);
	return 0;
}

static int git_of(void *host, const struct git_key *at, char ret[PATH_MAX], struct err *e)
{
	struct fake_host *w = host;

	w->searches++;
	if (w->search_problem)
		return err_set(e, ERR_UNAVAILABLE, "%s", w->search_problem);
	return w->searching ? 1 : workspace_search(at->folder, at->home, false, ret);
}

/* A test answers it. */
static uint32_t want_reload(void *host)
{
	struct fake_host *w = host;

	return ++w->reload_token;
}

static const struct ports fake_ports = {
	real_us,
	boot_ns,
	wake_at,
	base_env,
	add_peer,
	find_peer,
	launch,
	open_gate,
	send_signal,
	kill_tree,
	kill_init,
	write_stdin,
	close_stdin,
	line,
	resize,
	peek_output,
	output_fd,
	stop_reading,
	close_output,
	release,
	.policy_of = policy_of,
	.git_of = git_of,
	.want_reload = want_reload,
};

/* ---- recovery ---- */

static void spool_find(struct fake_host *w, struct fake_process *p, uint64_t size[STREAM_COUNT])
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		mem_auto char *path = mem_printf("%s/%s", w->spool, p->streams.ref[i]);
		struct stat st;
		fd_close(&p->spool_fd[i]);
		p->spool_fd[i] = p->streams.ref[i][0] ? open(path, O_RDWR | O_CLOEXEC) : -1;
		size[i] = p->spool_fd[i] >= 0 && fstat(p->spool_fd[i], &st) == 0 ? (uint64_t)st.st_size : 0;
	}
}

static void adopt(void *host, const struct port_held *h, const struct port_streams *streams,
		  uint64_t size[STREAM_COUNT])
{
	struct fake_process *p = fake_find(host, h->id);

	if (!p)
		p = fake_add(host, h->id, streams);
	p->streams = *streams;
	p->gate_open = false;
	spool_find(host, p, size);
}

static void abandon(void *host, const struct port_held *h)
{
	struct fake_host *w = host;

	w->abandoned[w->nabandoned++] = h->id;
}

static void salvage(void *host, const char *id, const struct port_streams *streams, uint64_t size[STREAM_COUNT])
{
	struct fake_process *p = fake_find(host, id);

	spool_find(host, p ? p : fake_add(host, id, streams), size);
}

static const struct recovery_ports fake_recovery = { adopt, abandon, salvage };

/* ---- set-up ---- */

void fake_reopen(struct fake_host *w, const struct port_held *held, size_t ndeferred)
{
	struct err e = ERR_INIT;
	mem_auto char *dir = mem_printf("%s/store", w->dir);
	const struct store_options so = { .dir = dir,
					  .spool_dir = w->spool,
					  .map_bytes = 256u << 20,
					  .project = view_project,
					  .project_speculative = view_project_speculative,
					  .soon_ms = 1,
					  .real_us = real_us,
					  .clock = w };

	ck_assert_msg(store_open(&so, &w->store, &e) == 0, "%s", e.message);
	const struct engine_options eo = {
		.store = w->store,
		.ports = &fake_ports,
		.host = w,
		.boot_id = "boot",
		.tool_program = "/usr/bin/true",
		.owner_uid = 0,
		.defaults = { LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE, LIMIT_NONE },
	};
	w->engine = engine_new(&eo);
	w->wake_ns = UINT64_MAX;
	ck_assert_msg(engine_recover(w->engine, &fake_recovery, held, ndeferred, &e) == 0, "%s", e.message);
	engine_resume(w->engine);
}

void fake_open(struct fake_host *w)
{
	*w = (struct fake_host){ .boot_ns = 1000000000000ull };
	snprintf(w->dir, sizeof w->dir, "/tmp/bailiff-engine-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	snprintf(w->spool, sizeof w->spool, "%s/spool", w->dir);
	mem_auto char *store = mem_printf("%s/store", w->dir);
	ck_assert_int_eq(mkdir(w->spool, 0700), 0);
	ck_assert_int_eq(mkdir(store, 0700), 0);
	fake_reopen(w, NULL, 0);
}

void fake_crash(struct fake_host *w)
{
	engine_free(w->engine);
	store_close(w->store);
}

static void remove_tree(const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
		_exit(127);
	}
	/* A test's process group is killed when its own process has ended. */
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

void fake_close(struct fake_host *w)
{
	fake_crash(w);
	for (size_t i = 0; i < w->nprocesses; i++) {
		buf_done(&w->processes[i].input);
		for (int s = 0; s < STREAM_COUNT; s++)
			fd_close(&w->processes[i].spool_fd[s]);
	}
	remove_tree(w->dir);
}

void fake_settle(struct fake_host *w)
{
	uint64_t before;

	do {
		before = store_last_sequence(w->store);
		store_flush(w->store);
	} while (store_last_sequence(w->store) != before);
}

void fake_advance(struct fake_host *w, uint64_t ms)
{
	uint64_t until = w->boot_ns + ms * 1000000;

	while (w->wake_ns <= until) {
		if (w->wake_ns > w->boot_ns)
			w->boot_ns = w->wake_ns;
		w->wake_ns = UINT64_MAX;
		engine_tick(w->engine);
		fake_settle(w);
	}
	w->boot_ns = until;
}

void fake_print(struct fake_host *w, struct fake_process *p, int stream, const void *bytes, size_t n)
{
	if (p->spool_fd[stream] < 0) {
		mem_auto char *path = mem_printf("%s/%s", w->spool, p->streams.ref[stream]);
		p->spool_fd[stream] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		ck_assert_int_ge(p->spool_fd[stream], 0);
	}
	ck_assert_int_eq(pwrite(p->spool_fd[stream], bytes, n, (off_t)p->size[stream]), (ssize_t)n);
	p->size[stream] += n;
	engine_on_output(w->engine, p->id, stream, p->size[stream]);
}

void fake_exit(struct fake_host *w, struct fake_process *p, int wait_status, uint32_t cause)
{
	const struct status_msg m = {
		.kind = STATUS_EXITED, .wait_status = wait_status, .cause = cause, .max_rss_bytes = 4096
	};

	engine_on_exited(w->engine, p->id, &m);
	engine_on_gone(w->engine, p->id, &m);
	engine_on_output_end(w->engine, p->id, STREAM_STDOUT);
	engine_on_output_end(w->engine, p->id, STREAM_STDERR);
	engine_on_output_end(w->engine, p->id, STREAM_PTY);
	fake_settle(w);
}

struct start_request fake_request(struct fake_host *w, const char *command_line)
{
	struct start_request r = { .command_line = command_line };

	engine_default_limits(w->engine, &r.limits);
	return r;
}

struct fake_process *fake_begin(struct fake_host *w, struct fake_process *p)
{
	const struct port_started s = { .pid = 4242, .start_time = 99, .attempt = 1 };
	char id[PLAN_KEY_MAX];

	memcpy(id, p->id, sizeof id);
	engine_on_started(w->engine, id, &s);
	engine_on_ready(w->engine, id, PLAN_LAYER_NAMESPACES | PLAN_LAYER_MOUNTS);
	fake_settle(w);
	ck_assert(p->gate_open);
	engine_on_execed(w->engine, id);
	fake_settle(w);
	return p;
}

struct fake_process *fake_run(struct fake_host *w, const struct start_request *r, struct fake_reply *reply)
{
	engine_start_process(w->engine, r, &fake_caller, fake_reply_fn, reply);
	return fake_begin(w, fake_last(w));
}

void fake_reply_fn(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct fake_reply *r = ctx;

	r->count++;
	r->code = e ? e->code : 0;
	buf_reset(&r->json);
	if (json)
		buf_append(&r->json, json, len);
	snprintf(r->message, sizeof r->message, "%s", e ? e->message : "");
}

/* ---- the log ---- */

struct search {
	const char *type;
	struct buf names;
	char *found;
	unsigned count;
};

static bool search_event(void *ctx, const struct event_view *ev)
{
	struct search *s = ctx;

	if (!s->type) {
		if (s->names.len)
			buf_byte(&s->names, ' ');
		buf_str(&s->names, event_info(ev->type)->name);
	} else if (strcmp(s->type, event_info(ev->type)->name) == 0) {
		struct buf json = BUF_INIT;
		free(s->found);
		event_json(ev, &json);
		s->found = buf_take(&json);
		s->count++;
	}
	return true;
}

static struct search search_log(struct fake_host *w, uint64_t after, const char *type)
{
	struct search s = { .type = type };
	const struct store_query q = { .after = after, .index = -1 };
	struct err e = ERR_INIT;

	ck_assert_msg(store_events(w->store, &q, search_event, &s, &e) == 0, "%s", e.message);
	return s;
}

char *fake_types(struct fake_host *w, uint64_t after)
{
	struct search s = search_log(w, after, NULL);

	return buf_take(&s.names);
}

char *fake_event(struct fake_host *w, const char *type) { return search_log(w, 0, type).found; }

bool fake_event_has(struct fake_host *w, const char *type, const char *path, const char *text)
{
	mem_auto char *json = fake_event(w, type);

	return json && jval_is_str(jval_path(jval_of(json, strlen(json)), path), text);
}

int64_t fake_event_number(struct fake_host *w, const char *type, const char *path)
{
	mem_auto char *json = fake_event(w, type);

	return json ? jval_int(jval_path(jval_of(json, strlen(json)), path), -1) : -1;
}

struct jval fake_answer(const struct fake_reply *r, const char *path)
{
	return jval_path(jval_of(r->json.data, r->json.len), path);
}

unsigned fake_count(struct fake_host *w, const char *type)
{
	struct search s = search_log(w, 0, type);

	free(s.found);
	return s.count;
}

static void on_verified(void *ctx, const struct store_verdict *v, const struct err *e)
{
	*(int *)ctx = v && v->ok ? 1 : -1;
}

bool fake_verified(struct fake_host *w)
{
	int ok = 0;

	store_verify(w->store, on_verified, &ok);
	while (ok == 0) {
		struct pollfd p = { .fd = store_dispatch_fd(w->store), .events = POLLIN };
		poll(&p, 1, 1000);
		store_dispatch(w->store);
	}
	return ok > 0;
}
