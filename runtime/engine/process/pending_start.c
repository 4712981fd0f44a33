/*
 * A start may have to wait until its folder was searched, and for the policy files of its workspace: another process
 * reads them. The request and the caller are borrowed and end with the call, so they are copied: the request by writing
 * and reading its record, the same path that a start takes after an approval. Members that the record lacks are copied
 * one by one.
 *
 * The wait ends when the files were read, or when the daemon stops; the start then begins again from the top. since_ns
 * is the beginning of the first wait. Files that were read after it count as fresh, so that a file that keeps changing
 * cannot keep a start waiting forever.
 */

#include "runtime/engine/process/pending_start.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/event/id.h"

#include <errno.h>
#include <fcntl.h>

static void free_text(const char *s) { free((void *)(uintptr_t)s); }

void pending_start_free(struct pending_start *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < countof(h->ids); i++)
		free(h->ids[i]);
	free_text(h->approval.action_id);
	free_text(h->approval.binding);
	free(h->separate_reason);
	caller_done(&h->caller);
	start_record_done(&h->record);
	free(h);
}

static void keep_approval(struct pending_start *h, const struct start_approval *a)
{
	h->approval = *a;
	h->approval.action_id = mem_strdup(a->action_id);
	h->approval.binding = mem_strdup(a->binding);
	h->approval.scope = h->ids[4] = mem_strdup(a->scope);
	h->approval.session_id = h->ids[5] = mem_strdup(a->session_id);
	h->approval.thread_id = h->ids[6] = mem_strdup(a->thread_id);
	h->approval.turn_id = h->ids[7] = mem_strdup(a->turn_id);
	h->record.spec.request.approval = &h->approval;
}

struct pending_start *pending_start_new(struct engine *engine, const struct start_request *r, const struct caller *c,
					engine_reply_fn fn, void *ctx, struct err *e)
{
	struct pending_start *h = mem_zalloc(1, sizeof *h);
	buf_auto struct buf text = BUF_INIT;
	struct start_request copy = *r;
	char id[ID_TEXT_MAX];

	if (!r->process_id) {
		id_make(ID_KIND_PROCESS, id);
		copy.process_id = id;
	}
	if (r->ret_process_id)
		memcpy(r->ret_process_id, copy.process_id, strlen(copy.process_id) + 1);
	start_record_write(&copy, &text);
	h->caller.peer_fd = -1;
	if (start_record_read(engine, text.data, text.len, &h->record, e) < 0) {
		/* The record was not filled; this makes start_record_done ignore it. */
		h->record.json = NULL;
		pending_start_free(h);
		return NULL;
	}
	struct start_request *kept = &h->record.spec.request;
	kept->session_id = h->ids[0] = mem_strdup(r->session_id);
	kept->thread_id = h->ids[1] = mem_strdup(r->thread_id);
	kept->turn_id = h->ids[2] = mem_strdup(r->turn_id);
	kept->trace_id = h->ids[3] = mem_strdup(r->trace_id);
	kept->limits = r->limits; /* a record does not distinguish "none" from "not given" */
	kept->hooked = r->hooked; /* borrowed: valid until the start has completed */
	if (r->approval)
		keep_approval(h, r->approval);
	caller_copy(&h->caller, c);
	h->fn = fn;
	h->ctx = ctx;
	return h;
}

static void continue_start(struct engine *engine, void *ctx)
{
	struct pending_start *h = ctx;

	h->go(engine, h);
}

void pending_start_await(struct engine *engine, const char *folder, struct pending_start *h,
			 void (*go)(struct engine *engine, struct pending_start *h))
{
	if (!h->since_ns)
		h->since_ns = engine_now(engine);
	h->go = go;
	policy_lookup_await(engine, h->caller.uid, folder, continue_start, h);
}

void pending_start_wait(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
			struct pending_start *h, void (*go)(struct engine *engine, struct pending_start *h))
{
	char workspace[PATH_MAX] = "";
	struct err e = ERR_INIT;

	/* Cannot fail: policy_lookup_rules has found the same workspace before. */
	(void)policy_lookup_find_workspace(engine, f, r, &h->caller, workspace, &e);
	pending_start_await(engine, workspace, h, go);
}
