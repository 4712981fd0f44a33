#include "policy/analysis.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"

/* The value of a part that refers to the home directory (~, $HOME, ${HOME}), if that is known. */
static const char *known_part(const struct analysis *r, const struct shell_part *p)
{
	static const char *const names[] = { "~", "$HOME", "${HOME}" };

	for (size_t i = 0; i < countof(names) && r->o->home && !r->home_changed; i++)
		if (strlen(names[i]) == p->len && memcmp(names[i], p->text, p->len) == 0 &&
		    (i == 0) == (p->kind == SHELL_PART_TILDE))
			return r->o->home;
	return NULL;
}

/* Whether the first character is certain. A glob may expand to anything, including a leading dash. */
static bool is_certain(const struct shell_word *w)
{
	const struct shell_part *p = w->part;

	return w->nparts && p->kind == SHELL_PART_LITERAL && p->len &&
	       (p->quoted || !(w->unknown & SHELL_GLOB) || !strchr("*?[+@!", *p->text));
}

struct command_word analysis_word(struct analysis *r, const struct shell_word *w)
{
	struct command_word c = {
		.value = w->value,
		.plain = w->plain,
		.unknown = w->unknown,
		.many = w->many,
		.lead = w->value || is_certain(w),
	};
	buf_auto struct buf text = BUF_INIT;
	bool home = false;

	if (w->value)
		return c;
	c.unknown = w->unknown & (SHELL_GLOB | SHELL_BRACES | SHELL_ARRAY);
	c.many = c.unknown != 0;
	for (size_t i = 0; i < w->nparts; i++) {
		const char *known = w->part[i].kind == SHELL_PART_LITERAL ? NULL : known_part(r, &w->part[i]);

		buf_append(&text, known ? known : w->part[i].text, known ? strlen(known) : w->part[i].len);
		home |= known != NULL;
		c.lead |= i == 0 && known;
		if (w->part[i].kind != SHELL_PART_LITERAL && !known) {
			c.unknown |= w->part[i].unknown;
			c.many |= w->many;
		}
	}
	if (home) {
		c.plain = shell_arena_strndup(r->arena, text.data, text.len);
		c.value = c.unknown ? NULL : c.plain;
	} else {
		c.unknown = w->unknown;
		c.many = w->many;
	}
	return c;
}
