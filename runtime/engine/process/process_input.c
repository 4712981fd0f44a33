/*
 * Facts about the input of processes. A write is recorded as process.input after its bytes are in the pipe, with their
 * number, the beginning of the text and the client that sent them; input that was given with the start is recorded with
 * the start. For a terminal the event also has the size of the output at that time, with which the session can be
 * replayed.
 *
 * Secrets are the exception: input that was typed while the terminal had echo off appears only as a number of bytes,
 * and output.redacted names the rule that removed it.
 */

#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"

#define INPUT_PREVIEW 256u

static void write_input(struct jw *w, const void *data, size_t len)
{
	size_t shown = len < INPUT_PREVIEW ? len : INPUT_PREVIEW, cut = text_utf8_cut(data, shown);

	if (text_utf8_valid(data, cut)) {
		jw_kstrn(w, "preview", data, cut);
		jw_kstr(w, "encoding", "utf8");
	} else {
		jw_key(w, "preview");
		jw_base64(w, data, shown);
		jw_kstr(w, "encoding", "base64");
	}
}

struct scope process_input_scope(const struct process *p, const char *request_id)
{
	struct scope s = process_scope(p);

	s.request = request_id;
	return s;
}

void process_input_fact(struct process *p, struct transaction *tx, const struct pending_input *in)
{
	struct scope s = process_scope(p);

	EMIT(process_input, tx, process_input_scope(p, in->reply.request_id), .kind = in->eof ? "eof" : "data",
	     .bytes = opt_int_if(!in->eof || in->len, in->len),
	     .shown = in->eof || in->redacted ? JSON_NONE : json_from_writer(write_input, in->data, in->len),
	     .offset = opt_int_if(process_has_tty(p), in->offset), .redacted = in->redacted,
	     .by = json_requester(&in->by));
	if (!in->redacted)
		return;
	/* Input typed with echo off is not recorded anywhere, only the fact that it was left out. */
	s.output = p->streams[STREAM_PTY].ref;
	EMIT(output_redacted, tx, s, .outputRef = s.output, .count = opt_int(in->len), .rule = "echo_off",
	     .by = json_requester(&in->by));
}

void process_given_facts(struct process *p, struct transaction *tx)
{
	/*
	 * The host writes this input and closes the pipe itself, without further requests. The facts are the same as
	 * those of a write and a close.
	 */
	struct pending_input in = { .by = p->by, .data = p->given_input, .len = strlen(p->given_input) };

	in.reply.request_id = p->start.request_id;
	process_input_fact(p, tx, &in);
	if (!p->stdin_closed)
		return;
	in.eof = true;
	in.len = 0;
	process_input_fact(p, tx, &in);
}
