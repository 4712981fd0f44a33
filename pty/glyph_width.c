#include "pty/glyph_width.h"

#include "runtime/base/text.h"

#include <stdlib.h>

static unsigned measure(struct glyph_width *g, uint32_t character)
{
	char text[5] = "\r";
	VTermPos pos = { 0 };

	if (!g->ruler) {
		g->ruler = vterm_new(1, 8);
		if (!g->ruler)
			abort();
		vterm_set_utf8(g->ruler, 1);
		vterm_state_reset(vterm_obtain_state(g->ruler), 1);
	}
	vterm_input_write(g->ruler, text, 1 + text_utf8_encode(character, text + 1));
	vterm_state_get_cursorpos(vterm_obtain_state(g->ruler), &pos);
	return pos.col >= 2 ? 2 : (unsigned)pos.col;
}

unsigned glyph_width_of(struct glyph_width *g, uint32_t character)
{
	uint32_t *slot = &g->characters[character % GLYPH_WIDTH_CACHE];

	if (character < 0x300 || character > 0x10ffff) /* the first wide or combining one is later */
		return 1;
	if (*slot / 4 != character)
		*slot = character * 4 + measure(g, character);
	return *slot % 4;
}

void glyph_width_done(struct glyph_width *g)
{
	if (g->ruler)
		vterm_free(g->ruler);
	g->ruler = NULL;
}
