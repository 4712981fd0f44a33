#include "supervisor/cli/denied.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"

#include <stdio.h>
#include <string.h>

void denied_done(struct denied *d)
{
	for (size_t i = 0; i < d->count; i++)
		free(d->lines[i]);
	for (size_t i = 0; i < d->nlater; i++)
		free(d->later[i]);
	*d = (struct denied){ 0 };
}

/* What was refused: a path, an address, a system call. */
static void write_object(struct jval v, struct buf *out)
{
	struct jval path = jval_get(v, "path"), host = jval_get(v, "host"), address = jval_get(v, "address");

	buf_byte(out, ' ');
	if (path.type == JT_STRING) {
		if (jval_is_str(jval_get(v, "pathIs"), "directory"))
			buf_str(out, "in ");
		jval_str_buf(path, out);
	} else if (host.type == JT_STRING || address.type == JT_STRING) {
		bool six = host.type != JT_STRING && memchr(address.text, ':', address.len);
		buf_str(out, six ? "[" : "");
		jval_str_buf(host.type == JT_STRING ? host : address, out);
		buf_str(out, six ? "]" : "");
	} else {
		jval_str_buf(jval_get(v, "syscall"), out);
	}
	if (jval_get(v, "port").type == JT_NUMBER)
		buf_printf(out, ":%d", (int)jval_int(jval_get(v, "port"), 0));
}

/* The daemon's own words, or what the kernel's answer means. */
static void write_reason(struct jval v, struct buf *out)
{
	struct jval reason = jval_get(v, "reason");

	if (reason.type == JT_STRING) {
		struct jval address = jval_get(v, "address");
		buf_str(out, " (");
		jval_str_buf(reason, out);
		if (address.type == JT_STRING && jval_get(v, "host").type == JT_STRING) {
			buf_str(out, ": ");
			jval_str_buf(address, out);
		}
		buf_byte(out, ')');
	} else if (jval_is_str(jval_get(v, "source"), "seccomp")) {
		buf_str(out, " (a system call that sandboxes may not use)");
	} else if (jval_is_str(jval_get(v, "errnoName"), "EROFS")) {
		buf_str(out, " (outside the write roots)");
	} else if (jval_is_str(jval_get(v, "errnoName"), "ENETUNREACH")) {
		buf_str(out, " (no network)");
	}
}

/* Only of hosts that nobody has named: what a rule denies, or what two names disagree about, no option opens. */
static void note_host(struct denied *d, struct jval v)
{
	bool listed = !jval_is_str(jval_get(v, "reason"), "not in the allowed hosts");

	if (listed || d->host[0] || jval_str(jval_get(v, "host"), d->host, sizeof d->host) >= sizeof d->host)
		return;
	d->port = (int)jval_int(jval_get(v, "port"), 0);
}

static void note_options(struct denied *d, struct jval v)
{
	struct jval operation = jval_get(v, "operation");
	bool file = jval_is_str(jval_get(v, "kind"), "filesystem");
	bool read = jval_is_str(operation, "read") || jval_is_str(operation, "execute");

	/* The sandbox had no part in it, or it stands whatever is asked for: no option would help. */
	if (jval_is_str(jval_get(v, "reason"), "not permitted to its user") || jval_is_str(jval_get(v, "reason"), "protected"))
		return;
	if (jval_is_str(jval_get(v, "source"), "proxy"))
		note_host(d, v);
	else
		d->network |= jval_is_str(jval_get(v, "kind"), "network");
	d->read |= file && read;
	if (!file || read)
		return;
	d->write = true;
	if (d->folder[0] || jval_str(jval_get(v, "path"), d->folder, sizeof d->folder) >= sizeof d->folder)
		return;
	char *slash = strrchr(d->folder, '/');
	if (slash && !jval_is_str(jval_get(v, "pathIs"), "directory"))
		slash[slash == d->folder] = '\0';
}

static bool known(struct denied *d, const char *line)
{
	for (size_t i = 0; i < d->count; i++)
		if (strcmp(d->lines[i], line) == 0)
			return true;
	for (size_t i = 0; i < d->nlater; i++)
		if (strcmp(d->later[i], line) == 0)
			return true;
	return false;
}

bool denied_take(struct denied *d, struct jval event)
{
	struct jval v = jval_get(event, "payload"), operation = jval_get(v, "operation");
	struct buf line = BUF_INIT;

	if (!jval_is_str(jval_get(event, "type"), "sandbox.violation"))
		return false;
	if (jval_is_str(operation, "call"))
		buf_str(&line, "system call");
	else
		jval_str_buf(operation, &line);
	write_object(v, &line);
	write_reason(v, &line);
	note_options(d, v);
	char *text = buf_take(&line);
	if (!known(d, text)) {
		if (d->count < DENIED_LINES) {
			d->lines[d->count++] = text;
			return true;
		}
		if (d->nlater < sizeof d->later / sizeof d->later[0]) {
			d->later[d->nlater++] = text;
			return true;
		}
		d->many = true;
	}
	free(text);
	return true;
}

void denied_tell(const struct denied *d, const char *process_id)
{
	buf_auto struct buf options = BUF_INIT;

	for (size_t i = 0; i < d->count; i++)
		cli_error("denied: %s", d->lines[i]);
	if (d->nlater)
		cli_hint("and %zu%s more; bailiff events --process %s --type sandbox.violation", d->nlater, d->many ? " or" : "", process_id);
	if (d->write)
		buf_printf(&options, "--rw %s to let it write there", d->folder[0] == '/' ? d->folder : "PATH");
	if (d->read)
		buf_printf(&options, "%s--ro PATH to let it read", options.len ? ", " : "");
	if (d->network)
		buf_printf(&options, "%s--net host to let it reach the network", options.len ? ", " : "");
	if (d->host[0] && d->host[0] != '(') {
		bool six = strchr(d->host, ':');
		buf_printf(&options, "%s--allow-host %s%s%s:%d to let it reach that", options.len ? ", " : "", six ? "[" : "", d->host,
			   six ? "]" : "", d->port);
	}
	if (options.len)
		cli_hint("%s (where the policy permits it)", options.data);
}
