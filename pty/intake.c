#include "pty/intake.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

#include <stdio.h>

/* ---- cleaning ---- */

static void csi_end(struct intake *in, char final, unsigned rows)
{
	char all[24];

	in->params[in->nparams] = '\0';
	if (final == 'r' && in->params[0] != '?') {
		snprintf(all, sizeof(all), "1;%u", rows);
		in->region = in->params[0] && strcmp(in->params, all) != 0;
	}
	if ((final == 'h' || final == 'l') && in->params[0] == '?' && strstr(in->params, "69"))
		in->margins = final == 'h';
	in->state = INTAKE_TEXT;
}

static void escape_end(struct intake *in, char c, struct buf *out)
{
	in->state = INTAKE_TEXT;
	if (memchr("PX^_k", c, 5)) {
		buf_str(out, "]9999;");
		return;
	}
	buf_byte(out, c);
	if (c == '[') {
		in->state = INTAKE_CSI;
		in->nparams = 0;
	} else if (c == 'c') {
		in->region = in->margins = false;
	}
}

void intake_clean(struct intake *in, const void *bytes, size_t n, unsigned rows, struct buf *out)
{
	const char *p = bytes;

	while (n) {
		char c = *p;

		if (in->state == INTAKE_TEXT) {
			const char *escape = memchr(p, '\033', n);
			size_t plain = escape ? (size_t)(escape - p) + 1 : n;

			buf_append(out, p, plain);
			p += plain;
			n -= plain;
			if (escape)
				in->state = INTAKE_ESCAPE;
			continue;
		}
		p++;
		n--;
		if ((unsigned char)c < 0x20 || c == 0x7f) { /* acts within a sequence, or begins another */
			if (c == '\033')
				in->state = INTAKE_ESCAPE;
			buf_byte(out, c);
		} else if (in->state == INTAKE_ESCAPE) {
			escape_end(in, c, out);
		} else {
			buf_byte(out, c);
			if (c >= '@' && c <= '~')
				csi_end(in, c, rows);
			else if (in->nparams + 1 < sizeof(in->params))
				in->params[in->nparams++] = c;
		}
	}
}

/* ---- skimming ---- */

/* The length of a control sequence that only changes colours or erases to the end of the line; 0 if it is another. */
static size_t harmless_csi(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 3 || p[1] != '[')
		return 0;
	while (i < n && i < 40 && ((p[i] >= '0' && p[i] <= '9') || p[i] == ';' || p[i] == ':'))
		i++;
	return i < n && (p[i] == 'm' || p[i] == 'K') ? i + 1 : 0;
}

/* The length of the control or text at p that leaves nothing behind once it has scrolled out; 0 if it might. */
static size_t harmless(const char *p, size_t n)
{
	unsigned char c = (unsigned char)*p;

	if (c >= 0x20 || (c >= '\a' && c <= '\n') || c == '\r')
		return 1;
	return c == '\033' ? harmless_csi(p, n) : 0;
}

size_t intake_skim(const struct intake *in, const void *bytes, size_t n, size_t keep, struct buf *out)
{
	const char *p = bytes;
	size_t lines = 0, end = 0, cut = 0;

	if (in->state != INTAKE_TEXT || in->region || in->margins)
		return 0;
	for (size_t len; end < n && (len = harmless(p + end, n - end)) > 0; end += len)
		lines += p[end] == '\n' && end && p[end - 1] == '\r';
	if (lines <= keep)
		return 0;
	for (size_t drop = lines - keep; drop;) {
		const char *line = memchr(p + cut, '\n', end - cut);

		cut = (size_t)(line - p) + 1;
		drop -= cut >= 2 && p[cut - 2] == '\r';
	}
	for (size_t i = 0, len; i < cut; i += len) {
		const char *escape = memchr(p + i, '\033', cut - i);

		if (!escape)
			break;
		i = (size_t)(escape - p);
		len = harmless_csi(escape, cut - i);
		if (len && escape[len - 1] == 'm')
			buf_append(out, escape, len);
	}
	return cut;
}
