#include "supervisor/fleet/node_config.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static int read_config(const char *more, struct node_config *ret, struct err *e)
{
	const char *argv[] = { "bailiff-fleet", "--url", "nats://localhost", "--default-work", "/work" };
	mem_auto char *text = mem_printf("{\"fleet.node\":\"n1\"%s}", more);
	fd_auto int fd = memfd_create("config", MFD_CLOEXEC);

	ck_assert_int_ge(fd_write_all(fd, text, strlen(text)), 0);
	return node_config_read(countof(argv), (char **)argv, fd, ret, e);
}

START_TEST(a_certificate_needs_its_key)
{
	static const struct {
		const char *more, *field;
	} rows[] = { { "", NULL },
		     { ",\"fleet.tlsCa\":\"/ca\"", NULL },
		     { ",\"fleet.tlsCert\":\"/c\",\"fleet.tlsKey\":\"/k\"", NULL },
		     { ",\"fleet.tlsCert\":\"/c\"", "fleet.tlsKey" },
		     { ",\"fleet.tlsKey\":\"/k\"", "fleet.tlsCert" } };

	for (size_t i = 0; i < countof(rows); i++) {
		struct node_config c = { 0 };
		struct err e = ERR_INIT;

		ck_assert_int_eq(read_config(rows[i].more, &c, &e), rows[i].field ? -1 : 0);
		ck_assert_str_eq(e.field, rows[i].field ? rows[i].field : "");
		node_config_done(&c);
	}
}
END_TEST

int main(void) { return SUITE("node_config", a_certificate_needs_its_key); }
