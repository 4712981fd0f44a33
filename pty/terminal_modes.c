#include "pty/terminal_modes.h"

#include "runtime/base/buf.h"

#include <string.h>

#define PARAMS (sizeof(((struct terminal_modes *)0)->params) / sizeof(unsigned))
#define PARAM_MOST 99999

enum { GROUND, ESCAPE, CHARSET, CONTROL, STRING, STRING_ESCAPE };

/*
 * DEC private modes that are visible or change what the keyboard sends. The alternate screens are last, so that they
 * are left last.
 */
static const struct mode {
	unsigned number;
	bool usual;
} modes[] = {
	{ 6, false },    { 12, false },   { 66, false },   { 1, false },    { 7727, false }, { 9, false },
	{ 1000, false }, { 1001, false }, { 1002, false }, { 1003, false }, { 1004, false }, { 1005, false },
	{ 1006, false }, { 1015, false }, { 1016, false }, { 2004, false }, { 2026, false }, { 5, false },
	{ 69, false },   { 2027, false }, { 2031, false }, { 2048, false }, { 7, true },     { 25, true },
	{ 47, false },   { 1047, false }, { 1049, false },
};
#define ORIGIN 0
#define MODES (sizeof(modes) / sizeof(modes[0]))
#define FIRST_ALTERNATE (MODES - 3)
#define PASTE_MODE 2004
#define CURSOR_SHOWN (MODES - 4)

static bool is_alternate(const struct terminal_modes *t) { return t->modes >> FIRST_ALTERNATE; }

/*
 * A bit is set while the mode differs from a terminal that was just reset; unknown modes are ignored. What is left on
 * the alternate screen's keyboard when the program leaves that screen cannot be undone from here.
 */
static void set_mode(struct terminal_modes *t, unsigned number, bool on)
{
	for (size_t i = 0; i < MODES; i++) {
		if (modes[i].number != number)
			continue;
		if (on == modes[i].usual)
			t->modes &= ~(1u << i);
		else
			t->modes |= 1u << i;
	}
	if (!is_alternate(t))
		t->keyboards[1] = (struct terminal_keyboard){ 0 };
}

static bool is_set(const struct terminal_modes *t, unsigned number)
{
	for (size_t i = 0; i < MODES; i++)
		if (modes[i].number == number)
			return t->modes & (1u << i);
	return false;
}

/* ---- the keyboard protocol ---- */

/* A full stack loses its oldest entry. */
static void keyboard_push(struct terminal_keyboard *k, unsigned flags)
{
	if (k->depth == TERMINAL_KEYBOARD_MAX)
		memmove(k->flags + 1, k->flags + 2, TERMINAL_KEYBOARD_MAX - 1);
	else
		k->depth++;
	k->flags[k->depth] = (unsigned char)flags;
}

/* To pop more than there is also resets what is below. */
static void keyboard_pop(struct terminal_keyboard *k, unsigned n)
{
	if (n > k->depth)
		*k = (struct terminal_keyboard){ 0 };
	else
		k->depth -= n;
}

/* CSI > FLAGS u, CSI < COUNT u, and CSI = FLAGS ; HOW u: 1 replaces, 2 adds, 3 removes. */
static void handle_keyboard(struct terminal_modes *t)
{
	struct terminal_keyboard *k = &t->keyboards[is_alternate(t)];
	unsigned first = t->nparams ? t->params[0] : 0, flags = first & 31, how = t->nparams > 1 ? t->params[1] : 1;
	unsigned char *top = &k->flags[k->depth];

	if (t->intro == '>')
		keyboard_push(k, flags);
	else if (t->intro == '<')
		keyboard_pop(k, first ? first : 1);
	else if (t->intro == '=')
		*top = (unsigned char)(how == 2 ? *top | flags : how == 3 ? *top & ~flags : flags);
}

static void keyboard_write_reset(const struct terminal_keyboard *k, struct buf *out)
{
	if (k->depth)
		buf_printf(out, "\033[<%uu", k->depth);
	if (k->flags[0])
		buf_str(out, "\033[=0u");
}

static void keyboard_write_restore(const struct terminal_keyboard *k, struct buf *out)
{
	if (k->flags[0])
		buf_printf(out, "\033[=%uu", k->flags[0]);
	for (unsigned i = 1; i <= k->depth; i++)
		buf_printf(out, "\033[>%uu", k->flags[i]);
}

/* ---- parsing ---- */

/* ESC c resets the terminal, but not the parser that is reading it, and not the colours of every terminal. */
static void reset_state(struct terminal_modes *t)
{
	*t = (struct terminal_modes){
		.state = t->state, .palette = t->palette, .latin = t->latin, .queries = t->queries
	};
}

/* Without parameters the region is the whole screen, the default. Terminals ignore one of less than two rows. */
static void set_region(struct terminal_modes *t)
{
	if (t->nparams > 1 && t->params[1] && t->params[0] >= t->params[1])
		return;
	t->region = t->nparams > 0;
	t->top = t->nparams > 0 ? t->params[0] : 0;
	t->bottom = t->nparams > 1 ? t->params[1] : 0;
}

/* DA, XTVERSION, DSR, DECRQM, sizes of the window, the keyboard's flags: queries that programs send. */
static bool is_query(const struct terminal_modes *t, char final)
{
	unsigned first = t->nparams ? t->params[0] : 0;

	switch (final) {
	case 'c': return t->intro != '?' && !t->middle;
	case 'n': return !t->middle && t->intro != '>';
	case 'p': return t->middle == '$';
	case 'q': return t->intro == '>';
	case 't': return !t->intro && !t->middle && first >= 11 && first <= 21;
	case 'm':
	case 'u': return t->intro == '?';
	default: return false;
	}
}

/* Handles a complete CSI sequence with this final byte. */
static void handle_control(struct terminal_modes *t, char final)
{
	unsigned first = t->nparams ? t->params[0] : 0;
	bool plain = !t->intro && !t->middle;

	t->queries += is_query(t, final);
	if (t->intro == '?' && !t->middle && (final == 'h' || final == 'l'))
		for (size_t i = 0; i < t->nparams; i++)
			set_mode(t, t->params[i], final == 'h');
	else if (plain && (final == 'h' || final == 'l') && first == 4)
		t->insert = final == 'h';
	else if (plain && final == 'm')
		t->colour = t->nparams && t->params[t->nparams - 1] != 0;
	else if (plain && final == 'r')
		set_region(t);
	else if (t->intro == '>' && final == 'm' && first == 4)
		t->keys = t->nparams > 1 ? t->params[1] : 0;
	else if (final == 'u' && !t->middle)
		handle_keyboard(t);
	else if (t->middle == ' ' && final == 'q')
		t->style = first != 0;
	else if (t->middle == '!' && final == 'p')
		t->keypad = t->insert = t->region = t->charset = t->shifted = t->colour = false;
}

/* Parameters beyond the limit overwrite the last one, so a long sequence costs no memory. */
static void control_byte(struct terminal_modes *t, char c)
{
	if (c >= '0' && c <= '9') {
		if (!t->nparams)
			t->params[t->nparams++] = 0;
		unsigned *p = &t->params[t->nparams - 1];
		*p = *p * 10 + (unsigned)(c - '0') > PARAM_MOST ? PARAM_MOST : *p * 10 + (unsigned)(c - '0');
	} else if (c == ';' || c == ':') {
		if (!t->nparams)
			t->params[t->nparams++] = 0;
		if (t->nparams < PARAMS)
			t->nparams++;
		t->params[t->nparams - 1] = 0; /* if there are too many, the last one is overwritten */
	} else if (c >= '<' && c <= '?') {
		t->intro = c;
	} else if (c >= ' ' && c <= '/') {
		t->middle = c;
	} else if (c >= '@' && c <= '~') {
		handle_control(t, c);
		t->state = GROUND;
	}
}

/* ---- strings ---- */

#define PALETTE_BIT 1u
#define SPECIAL_BIT 2u
static unsigned dynamic_bit(unsigned number) { return 1u << (number - 10 + 2); }

/*
 * A parameter of OSC 4 (index and colour in turn), 5, or 10 to 19 (a colour for this number, the next one …): a colour
 * is set, or asked for with "?", as by other OSC.
 */
static void handle_parameter(struct terminal_modes *t, const struct terminal_string *s)
{
	unsigned position = s->at - 1, dynamic = s->number + position;

	if (s->length == 1 && s->first == '?')
		t->queries++;
	else if (s->length && (s->number == 4 || s->number == 5) && position % 2)
		t->palette |= s->number == 4 ? PALETTE_BIT : SPECIAL_BIT;
	else if (s->length && s->number >= 10 && s->number <= 19 && dynamic <= 19)
		t->palette |= dynamic_bit(dynamic);
}

/* OSC 104, 105 and 110 to 119 without parameters reset what the above set. */
static void handle_reset(struct terminal_modes *t, unsigned number)
{
	if (number == 104 || number == 105)
		t->palette &= number == 104 ? ~PALETTE_BIT : ~SPECIAL_BIT;
	else if (number >= 110 && number <= 119)
		t->palette &= ~dynamic_bit(number - 100);
}

static void end_parameter(struct terminal_modes *t, bool last)
{
	struct terminal_string *s = &t->string;

	if (s->kind == ']' && s->at)
		handle_parameter(t, s);
	else if (s->kind == ']' && last)
		handle_reset(t, s->number);
	/* DECRQSS, XTGETTCAP; pictures of kitty */
	else if (last && s->kind == 'P')
		t->queries += (s->first == '$' || s->first == '+') && s->second == 'q';
	else if (last && s->kind == '_')
		t->queries += s->first == 'G';
	if (s->at < PARAM_MOST)
		s->at++;
	s->length = 0;
}

static void string_byte(struct terminal_modes *t, char c)
{
	struct terminal_string *s = &t->string;

	if (s->kind == ']' && c == ';') {
		end_parameter(t, false);
		return;
	}
	if (s->kind == ']' && !s->at)
		s->number = c >= '0' && c <= '9' && s->number < PARAM_MOST ? s->number * 10 + (unsigned)(c - '0')
									   : PARAM_MOST;
	if (s->length == 0)
		s->first = c;
	else if (s->length == 1)
		s->second = c;
	s->length++;
}

static void palette_write_reset(const struct terminal_modes *t, struct buf *out)
{
	if (t->palette & PALETTE_BIT)
		buf_str(out, "\033]104\a");
	if (t->palette & SPECIAL_BIT)
		buf_str(out, "\033]105\a");
	for (unsigned n = 10; n <= 19; n++)
		if (t->palette & dynamic_bit(n))
			buf_printf(out, "\033]%u\a", n + 100);
}

/* ---- the parser ---- */

static void escape_byte(struct terminal_modes *t, char c)
{
	t->state = GROUND;
	switch (c) {
	case '[':
		t->state = CONTROL;
		t->intro = t->middle = 0;
		t->nparams = 0;
		break;
	case ']':
	case 'P':
	case 'X':
	case '^':
	case '_':
		t->state = STRING;
		t->string = (struct terminal_string){ .kind = c };
		break;
	case '(':
	case ')':
	case '%':
		t->state = CHARSET;
		t->middle = c;
		break;
	case '=':
	case '>': t->keypad = c == '='; break;
	case 'c': reset_state(t); break;
	default: break;
	}
}

/* ESC restarts a sequence anywhere except in a string, where it may begin the terminator. */
static void feed_byte(struct terminal_modes *t, char c)
{
	if (c == '\033' && t->state != STRING) {
		t->state = ESCAPE;
		return;
	}
	/* CAN and SUB abort any sequence. */
	if (c == '\030' || c == '\032') {
		t->state = GROUND;
		return;
	}
	switch (t->state) {
	case GROUND:
		if (c == '\016' || c == '\017')
			t->shifted = c == '\016';
		break;
	case ESCAPE: escape_byte(t, c); break;
	case CHARSET:
		*(t->middle == '%' ? &t->latin : &t->charset) = t->middle == '%' ? c == '@' : c != 'B';
		t->state = GROUND;
		break;
	case CONTROL: control_byte(t, c); break;
	case STRING:
		if (c == '\033') {
			t->state = STRING_ESCAPE;
		} else if (c == '\a') {
			end_parameter(t, true);
			t->state = GROUND;
		} else {
			string_byte(t, c);
		}
		break;
	default:
		t->state = GROUND;
		if (c == '\\')
			end_parameter(t, true);
		else
			escape_byte(t, c);
		break;
	}
}

void terminal_modes_feed(struct terminal_modes *t, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		feed_byte(t, bytes[i]);
}

void terminal_modes_break(struct terminal_modes *t) { t->state = GROUND; }

bool terminal_modes_is_default(const struct terminal_modes *t)
{
	return t->state == GROUND && !t->modes && !t->keypad && !t->insert && !t->region && !t->charset &&
	       !t->shifted && !t->latin && !t->style && !t->keys && !t->colour && !t->palette &&
	       !t->keyboards[0].depth && !t->keyboards[0].flags[0] && !t->keyboards[1].depth &&
	       !t->keyboards[1].flags[0];
}

unsigned terminal_modes_queries(const struct terminal_modes *t) { return t->queries; }

bool terminal_modes_reports(const struct terminal_modes *t)
{
	static const unsigned numbers[] = { 9, 1000, 1001, 1002, 1003, 1004, 2031, 2048 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (is_set(t, numbers[i]))
			return true;
	return false;
}

bool terminal_modes_marks_pastes(const struct terminal_modes *t) { return is_set(t, PASTE_MODE); }

/* Aborts an unfinished sequence first; otherwise the terminal would swallow what follows. */
void terminal_modes_write_reset(const struct terminal_modes *t, struct buf *out)
{
	const struct {
		bool is;
		const char *undo;
	} rows[] = {
		{ t->keypad, "\033>" },   { t->insert, "\033[4l" },       { t->charset, "\033(B\033)B" },
		{ t->shifted, "\017" },   { t->keys != 0, "\033[>4;0m" }, { t->region, "\0337\033[r\0338" },
		{ t->style, "\033[0 q" }, { t->latin, "\033%G" },
	};

	if (terminal_modes_is_default(t))
		return;
	if (t->state != GROUND)
		buf_str(out, "\030");
	buf_str(out, "\033[0m");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].is)
			buf_str(out, rows[i].undo);
	palette_write_reset(t, out);
	keyboard_write_reset(&t->keyboards[is_alternate(t)], out);
	for (size_t i = 0; i < MODES; i++)
		if (t->modes & (1u << i))
			buf_printf(out, "\033[?%u%c", modes[i].number, modes[i].usual ? 'h' : 'l');
	if (is_alternate(t))
		keyboard_write_reset(&t->keyboards[0], out);
}

/* The screen itself is drawn by the caller, so the alternate screen and the cursor are not restored here. */
void terminal_modes_write_restore(const struct terminal_modes *t, struct buf *out)
{
	for (size_t i = 0; i < CURSOR_SHOWN; i++)
		if (t->modes & (1u << i))
			buf_printf(out, "\033[?%u%c", modes[i].number, modes[i].usual ? 'l' : 'h');
	if (t->keypad)
		buf_str(out, "\033=");
	if (t->insert)
		buf_str(out, "\033[4h");
	if (t->keys)
		buf_printf(out, "\033[>4;%um", t->keys);
	keyboard_write_restore(&t->keyboards[is_alternate(t)], out);
	if (t->region && t->bottom)
		buf_printf(out, "\033[%u;%ur", t->top ? t->top : 1, t->bottom);
	else if (t->region)
		buf_printf(out, "\033[%ur", t->top ? t->top : 1);
}

unsigned terminal_modes_origin(const struct terminal_modes *t, unsigned rows)
{
	unsigned top = t->top ? t->top : 1, bottom = t->bottom && t->bottom < rows ? t->bottom : rows;

	return t->modes & (1u << ORIGIN) && t->region && top < bottom ? top - 1 : 0;
}
