/*
 * `model add` checks the file with the key before the daemon stores its path; it does not read the file. `model test`
 * follows the turn of test_model.
 */

#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/file_option.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/noun.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#define WAIT_MS 200

int model_add(struct cli *c)
{
	request_auto struct request q = REQUEST_INIT(q);
	int status;

	jw_kstr(&q.w, "name", c->opts.args[1]);
	if ((status = file_option_write(opts_get(&c->opts, OPT_model_KEY_FILE), "--key-file", true, "keyFile", &q.w)) ||
	    (status = file_option_write(opts_get(&c->opts, OPT_model_CA_FILE), "--ca-file", false, "caFile", &q.w)) ||
	    (status = noun_options(c,
				   "model provider dialect base-url=baseUrl key-command=keyCommand effort "
				   "insecure:yes context=contextTokens:uint max-output=maxOutputTokens:uint "
				   "text-only=textOnly:yes default=isDefault:yes replace:yes",
				   &q.w)))
		return status;
	return noun_change(c, &q, "add_model", "name");
}

/* ---- test ---- */

/* Reads the turn's last event of these types into *q. 0 found, 1 not there, −1. */
static int read_last(struct cli *c, const char *turn_id, const char *const *types, size_t n, struct request *q,
		     struct jval *ret)
{
	int found = 1;

	jw_kstr(&q->w, "turnId", turn_id);
	jw_kstrv(&q->w, "types", types, n);
	if (request_read(c, q, "list_events") < 0)
		return -1;
	for (struct jiter it = jiter_on(jval_get(q->result, "events")); jiter_next(&it); found = 0)
		*ret = it.value;
	return found;
}

/* What the provider said is more useful than the reason why the turn ended after it. */
static int print_failure(struct cli *c, const char *turn_id, struct jval end)
{
	static const char *const failed[] = { "model.failed" };
	request_auto struct request q = REQUEST_INIT(q);
	char message[512], category[64];
	struct jval last = end;

	if (read_last(c, turn_id, failed, 1, &q, &last) < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "model test");
	jval_str(jval_path(last, "payload.message"), message, sizeof message);
	jval_str(jval_path(last, "payload.category"), category, sizeof category);
	cli_error("model test: %s (%s)", message, category);
	return EXIT_FAILED;
}

int model_test(struct cli *c)
{
	static const char *const ends[] = { "turn.completed", "turn.failed" };
	request_auto struct request q = REQUEST_INIT(q);
	char turn_id[64];

	jw_kstr(&q.w, "name", c->opts.args[1]);
	if (request_change(c, &q, "test_model") < 0)
		return cli_fail(c, EXIT_FAILED, &q.e, "model test");
	jval_str(jval_get(q.result, "turnId"), turn_id, sizeof turn_id);
	for (;; poll(NULL, 0, WAIT_MS)) {
		request_auto struct request next = REQUEST_INIT(next);
		buf_auto struct buf out = BUF_INIT;
		struct jval end;
		int r = read_last(c, turn_id, ends, countof(ends), &next, &end);

		if (r < 0)
			return cli_fail(c, EXIT_FAILED, &next.e, "model test");
		if (r > 0)
			continue;
		if (!jval_is_str(jval_get(end, "type"), "turn.completed"))
			return print_failure(c, turn_id, end);
		if (cli_as_json(c))
			return format_record(jval_get(end, "payload"), true);
		format_scalar(jval_path(end, "payload.summary"), &out);
		buf_byte(&out, '\n');
		return format_out(&out);
	}
}
