#include "policy/command.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/text.h"

#include <stdbool.h>

static bool is_plain(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_@%+=:,./-", c) != NULL);
}

enum quoting { QUOTE_NONE, QUOTE_SINGLE, QUOTE_ESCAPE };

static enum quoting quoting_of(const char *s, size_t n)
{
	enum quoting q = n ? QUOTE_NONE : QUOTE_SINGLE;

	if (!text_utf8_valid(s, n))
		return QUOTE_ESCAPE;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		/* C1 controls are c2 80 … c2 9f in UTF-8 */
		if (c < 0x20 || c == 0x7f || (c == 0xc2 && i + 1 < n && (unsigned char)s[i + 1] < 0xa0))
			return QUOTE_ESCAPE;
		if (!is_plain(c))
			q = QUOTE_SINGLE;
	}
	return q;
}

static void escape_byte(unsigned char c, struct buf *out)
{
	if (c == '\n')
		buf_str(out, "\\n");
	else if (c == '\t')
		buf_str(out, "\\t");
	else if (c == '\\' || c == '\'')
		buf_printf(out, "\\%c", c);
	else if (c >= 0x20 && c < 0x7f)
		buf_byte(out, (char)c);
	else
		buf_printf(out, "\\x%02x", c);
}

void command_quote(const char *s, size_t n, struct buf *out)
{
	switch (quoting_of(s, n)) {
	case QUOTE_NONE:
		buf_append(out, s, n);
		break;
	case QUOTE_SINGLE:
		buf_byte(out, '\'');
		for (size_t i = 0; i < n; i++)
			if (s[i] == '\'')
				buf_str(out, "'\\''");
			else
				buf_byte(out, s[i]);
		buf_byte(out, '\'');
		break;
	case QUOTE_ESCAPE:
		/* In an ANSI-C string \xNN takes at most two digits, so whatever follows is safe. */
		buf_str(out, "$'");
		for (size_t i = 0; i < n; i++)
			escape_byte((unsigned char)s[i], out);
		buf_byte(out, '\'');
		break;
	}
}

void command_display(const char *const *argv, size_t argc, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	for (size_t i = 0; i < argc && text.len <= COMMAND_DISPLAY_MAX; i++) {
		size_t n = strlen(argv[i]);

		if (i)
			buf_byte(&text, ' ');
		/* Longer than this it is cut below anyway. */
		command_quote(argv[i], n > COMMAND_DISPLAY_MAX ? text_utf8_cut(argv[i], COMMAND_DISPLAY_MAX + 1) : n, &text);
	}
	if (text.len <= COMMAND_DISPLAY_MAX) {
		buf_append(out, buf_cstr(&text), text.len);
		return;
	}
	buf_append(out, text.data, text_utf8_cut(text.data, COMMAND_DISPLAY_MAX));
	buf_str(out, "…");
}

void command_json(const char *const *argv, size_t argc, struct buf *out)
{
	static const char *const parts[] = { "subcommands", "paths", "network" };
	buf_auto struct buf display = BUF_INIT;
	struct jw w = jw_on(out);
	size_t used = 0, i;

	command_display(argv, argc, &display);
	jw_obj(&w);
	jw_kstrn(&w, "display", buf_cstr(&display), display.len);
	jw_karr(&w, "argv");
	for (i = 0; i < argc; i++) {
		size_t n = strlen(argv[i]);

		if (n > COMMAND_ARGV_MAX - used)
			break;
		jw_strn(&w, argv[i], n);
		used += n;
	}
	jw_arr_end(&w);
	if (i < argc)
		jw_kbool(&w, "argvTruncated", true);
	for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		jw_karr(&w, parts[k]);
		jw_arr_end(&w);
	}
	jw_obj_end(&w);
}
