/*
 * A command that tries the same forbidden thing a thousand times must not print a thousand lines: equal lines are shown
 * once, five different ones at most, and the rest is counted.
 *
 * Lookups are attempts to resolve a name. Many programs make some that they do not need, so they are kept apart: after
 * a success they are neither shown nor lead to a suggested option.
 */

#include "supervisor/cli/violation_summary.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <string.h>

void violation_summary_done(struct violation_summary *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->lines[i]);
	for (size_t i = 0; i < d->nlater; i++)
		free(d->later[i]);
	*d = (struct violation_summary){ 0 };
}

static bool is_known_line(struct violation_summary *d, const char *line)
{
	for (size_t i = 0; i < d->count; i++)
		if (strcmp(d->lines[i], line) == 0)
			return true;
	for (size_t i = 0; i < d->nlater; i++)
		if (strcmp(d->later[i], line) == 0)
			return true;
	return false;
}

bool violation_summary_add(struct violation_summary *d, struct jval event)
{
	struct jval v = jval_get(event, "payload");
	struct buf line = BUF_INIT;

	if (!jval_is_str(jval_get(event, "type"), "sandbox.violation"))
		return false;
	bool optional = violation_text_is_optional(v);
	if (violation_text_is_hint(v))
		buf_str(&line, "probably ");
	buf_str(&line, violation_text_is_elsewhere(v) ? "in the sandbox of another command: " : "denied: ");
	violation_text_describe(v, &line);
	if (violation_text_is_hint(v))
		buf_str(&line, ", guessed from the output");
	violation_needs_add(&d->needs, v);
	if (!optional)
		violation_needs_add(&d->needs_without_optional, v);
	char *text = buf_take(&line);
	if (!is_known_line(d, text)) {
		if (d->count < VIOLATION_SUMMARY_LINES) {
			d->optional[d->count] = optional;
			d->lines[d->count++] = text;
			return true;
		}
		/* Remembered only to count different lines; beyond that the count is a minimum. */
		if (d->nlater < sizeof d->later / sizeof d->later[0]) {
			d->later[d->nlater++] = text;
			return true;
		}
		d->many = true;
	}
	free(text);
	return true;
}

/* Folders and hosts are named where all violations agree on one; otherwise a placeholder. */
static void print_options(const struct violation_needs *n, bool in_sandbox)
{
	buf_auto struct buf options = BUF_INIT, host = BUF_INIT;
	const char *person = violation_needs_person(n);

	if (n->write)
		buf_printf(&options, "--rw %s to let it write there", n->folder[0] == '/' ? n->folder : "PATH");
	if (n->read)
		buf_printf(&options, "%s--ro %s to let it read", options.len ? ", " : "",
			   n->file[0] == '/' ? n->file : "PATH");
	violation_needs_host(n, &host);
	if (!host.len && n->network)
		buf_str(&host, "HOST");
	if (host.len)
		buf_printf(&options, "%s--allow-host %s to let it reach that", options.len ? ", " : "", host.data);
	else if (n->proxy)
		buf_printf(&options, "%sthe proxy that HTTP_PROXY names, or --net host for what cannot use one",
			   options.len ? ", " : "");
	if (n->session)
		cli_hint("bailiff sandbox create, then bailiff run --in SANDBOX for each of them: such commands share "
			 "/tmp "
			 "and localhost");
	if (n->closed)
		cli_hint("close that sandbox (bailiff sandbox list), or create the path outside of sandboxes after "
			 "removing what stands there: it is empty");
	if (person)
		cli_hint("%s", person);
	if (options.len)
		cli_hint("%s%s (where the policy permits it)",
			 in_sandbox ? "its sandbox stays as it is; another one (bailiff sandbox create) with " : "",
			 options.data);
}

void violation_summary_print(const struct violation_summary *d, const char *process_id, bool succeeded, bool in_sandbox)
{
	for (size_t i = 0; i < d->count; i++)
		if (!succeeded || !d->optional[i])
			cli_error("%s", d->lines[i]);
	if (d->nlater)
		cli_hint("and %zu%s more; bailiff events --process %s --type sandbox.violation", d->nlater,
			 d->many ? " or" : "", process_id);
	print_options(succeeded ? &d->needs_without_optional : &d->needs, in_sandbox);
}
