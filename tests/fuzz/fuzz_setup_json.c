/*
 * Any file: either rejected, or merged so that a second merge changes nothing. All of the file's own text is in the
 * merged text.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/setup.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte of `part` is in `whole`, in this order. */
static bool is_in(const char *part, const char *whole)
{
	for (; *part; part++, whole++)
		if (!(whole = strchr(whole, *part)))
			return false;
	return true;
}

static void try_form(enum setup_form form, const char *text)
{
	const struct setup_entry entry = { .program = "/b" };
	struct buf buf_auto once = BUF_INIT, twice = BUF_INIT;
	struct err e = ERR_INIT;

	if (setup_merge_json(form, text, &entry, &once, &e) < 0)
		return;
	if (setup_merge_json(form, buf_cstr(&once), &entry, &twice, &e) < 0 ||
	    strcmp(buf_cstr(&once), buf_cstr(&twice)) != 0)
		abort();
	if (!strstr(text, "bailiff") && text[strspn(text, " \t\r\n")] && !is_in(text, buf_cstr(&once)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum setup_form forms[] = { SETUP_MCP_SERVERS, SETUP_COMMENTED_MCP_SERVERS, SETUP_VSCODE_SERVERS };
	struct buf buf_auto text = BUF_INIT;

	buf_append(&text, data, size);
	for (size_t i = 0; i < countof(forms); i++)
		try_form(forms[i], buf_cstr(&text));
	return 0;
}
