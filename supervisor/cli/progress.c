#include "supervisor/cli/progress.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/text.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/format.h"

#include <unistd.h>

#define CLEAR_LINE "\r\033[K"

void progress_begin(struct progress *p, const struct cli *c)
{
	*p = (struct progress){ .on = format_has_control(STDERR_FILENO) && !cli_as_json(c),
				.started_ms = clock_boot_ms() };
}

void progress_draw(struct progress *p, const char *what, uint64_t done, uint64_t total, uint64_t running,
		   uint64_t failed)
{
	buf_auto struct buf line = BUF_INIT, bad = BUF_INIT;
	char took[16];

	if (!p->on)
		return;
	buf_str(&line, CLEAR_LINE);
	if (what) {
		text_sanitize_line(what, strlen(what), &line);
	} else {
		buf_printf(&line, "%llu of %llu done, %llu running", (unsigned long long)done,
			   (unsigned long long)total, (unsigned long long)running);
		buf_printf(&bad, "%llu failed", (unsigned long long)failed);
	}
	if (failed) {
		buf_str(&line, ", ");
		format_paint(&line, format_coloured(STDERR_FILENO), FORMAT_RED, buf_cstr(&bad));
	}
	text_format_duration(clock_boot_ms() - p->started_ms, took);
	buf_printf(&line, ", %s", took);
	(void)fd_write_all(STDERR_FILENO, line.data, line.len);
	p->drawn = true;
}

void progress_clear(struct progress *p)
{
	if (p->drawn)
		(void)fd_write_all(STDERR_FILENO, CLEAR_LINE, sizeof(CLEAR_LINE) - 1);
	p->drawn = false;
}
