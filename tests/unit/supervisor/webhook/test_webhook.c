#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/webhook/webhook.h"
#include "tests/unit/suite.h"

#include <string.h>

static const char *variable(const char *name)
{
	static const char *const pairs[][2] = { { "TOKEN", "s3cret" },
						{ "A_1", "one" },
						{ "SECRET", "no" },
						{ "LINES", "a\r\nX-Evil: 1" },
						{ "DOLLAR", "$SECRET" } };

	for (size_t i = 0; i < countof(pairs); i++)
		if (strcmp(pairs[i][0], name) == 0)
			return pairs[i][1];
	return NULL;
}

static void add(void *ctx, const char *line) { buf_printf(ctx, "%s|", line); }

START_TEST(only_permitted_variables_are_expanded)
{
	static const struct {
		const char *json, *lines; /* NULL: rejected */
	} rows[] = {
		{ "{}", "" },
		{ "{\"A\":\"b\",\"C\":\"d e\"}", "A: b|C: d e|" },
		{ "{\"Authorization\":\"Bearer $TOKEN\"}", "Authorization: Bearer s3cret|" },
		{ "{\"A\":\"${TOKEN}x$A_1.\"}", "A: s3cretxone.|" },
		{ "{\"A\":\"$TOKENx\"}", "A;|" },
		{ "{\"A\":\"[$SECRET${SECRET}]\"}", "A: []|" },
		{ "{\"A\":\"$DOLLAR\"}", "A: $SECRET|" },
		{ "{\"A\":\"$\"}", "A: $|" },
		{ "{\"A\":\"${TOKEN\"}", "A: ${TOKEN|" },
		{ "{\"A\":\"${}$1$$TOKEN\"}", "A: ${}$1$s3cret|" },
		{ "{\"A\":\"\"}", "A;|" },
		{ "{\"A\":\"$LINES\"}", NULL },
		{ "{\"A\":\"b\\nc\"}", NULL },
		{ "{\"A:\":\"b\"}", NULL },
		{ "{\"\":\"b\"}", NULL },
		{ "{\"A\":7}", NULL },
	};

	for (size_t i = 0; i < countof(rows); i++) {
		buf_auto struct buf lines = BUF_INIT;
		struct err e = ERR_INIT;
		int r = webhook_headers(rows[i].json, "TOKEN,A_1,LINES,DOLLAR,TOKENx", variable, add, &lines, &e);

		ck_assert_msg(r == (rows[i].lines ? 0 : -1), "%s", rows[i].json);
		if (rows[i].lines)
			ck_assert_str_eq(buf_cstr(&lines), rows[i].lines);
	}
}
END_TEST

int main(void) { return SUITE("webhook", only_permitted_variables_are_expanded); }
