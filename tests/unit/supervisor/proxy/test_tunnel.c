/* Tunnels: SOCKS 5, the check of the TLS ClientHello inside, and the reports. */

#include "runtime/base/mem.h"
#include "supervisor/proxy/client_hello.h"
#include "supervisor/proxy/socks.h"
#include "supervisor/proxy/traffic_report.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

/* ---- ClientHello ---- */

struct bytes {
	uint8_t p[70000];
	size_t n;
};

static void put(struct bytes *b, uint32_t v, size_t len)
{
	for (size_t i = 0; i < len; i++)
		b->p[b->n++] = (uint8_t)(v >> 8 * (len - 1 - i));
}

static void put_name(struct bytes *b, const char *name)
{
	uint32_t n = (uint32_t)strlen(name);
	put(b, 0, 2);
	put(b, n + 5, 2);
	put(b, n + 3, 2);
	put(b, 0, 1);
	put(b, n, 2);
	memcpy(b->p + b->n, name, n);
	b->n += n;
}

/* Builds a ClientHello with the names as extensions, `padding` bytes of another extension, and records of at most
 * `record` bytes. */
static void hello(struct bytes *out, const char *const *names, bool ech, size_t padding, size_t record)
{
	static struct bytes ext, body;
	ext.n = body.n = out->n = 0;
	if (padding) {
		put(&ext, 21, 2);
		put(&ext, (uint32_t)padding, 2);
		memset(ext.p + ext.n, 0, padding);
		ext.n += padding;
	}
	for (size_t i = 0; names[i]; i++)
		put_name(&ext, names[i]);
	if (ech) {
		put(&ext, 0xfe0d, 2);
		put(&ext, 1, 2);
		put(&ext, 0, 1);
	}
	put(&body, 1, 1);
	put(&body, (uint32_t)(2 + 32 + 1 + 4 + 2 + 2 + ext.n), 3);
	put(&body, 0x0303, 2);
	body.n += 32;
	put(&body, 0, 1);
	put(&body, 2, 2);
	put(&body, 0x1301, 2);
	put(&body, 0x0100, 2);
	put(&body, (uint32_t)ext.n, 2);
	memcpy(body.p + body.n, ext.p, ext.n);
	body.n += ext.n;
	for (size_t at = 0; at < body.n; at += record) {
		size_t n = body.n - at < record ? body.n - at : record;
		put(out, 22, 1);
		put(out, 0x0301, 2);
		put(out, (uint32_t)n, 2);
		memcpy(out->p + out->n, body.p + at, n);
		out->n += n;
	}
}
#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

START_TEST(server_names_are_found)
{
	static struct bytes b;
	struct client_hello h;
	hello(&b, NAMES("WWW.Example.com"), false, 0, 16384);
	for (size_t n = 0; n < b.n; n++)
		ck_assert_int_eq(client_hello_parse(b.p, n, &h), PARSED_MORE);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_OK);
	ck_assert_str_eq(h.name, "www.example.com");
	ck_assert(!h.encrypted);
	/* In many records, and a long one. */
	hello(&b, NAMES("a.test"), true, 9000, 100);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_OK);
	ck_assert_str_eq(h.name, "a.test");
	ck_assert(h.encrypted);
	hello(&b, NAMES(NULL), false, 4, 16384);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_OK);
	ck_assert_str_eq(h.name, "");
}
END_TEST

START_TEST(malformed_hellos_are_rejected)
{
	static struct bytes b;
	struct client_hello h;
	hello(&b, NAMES("a.test", "b.test"), false, 0, 16384);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("127.0.0.1"), false, 0, 16384);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("a\x01.test"), false, 0, 16384);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("a.test"), false, 40000, 16384);
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("a.test"), false, 0, 16384);
	b.p[5] = 2; /* a ServerHello */
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("a.test"), false, 0, 10);
	b.p[15] = 23; /* data between the records */
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
	hello(&b, NAMES("a.test"), false, 0, 16384);
	b.p[b.n - 7]--; /* a length that does not fit */
	ck_assert_int_eq(client_hello_parse(b.p, b.n, &h), PARSED_BAD);
}
END_TEST

/* ---- SOCKS ---- */

static enum parsed request(const char *bytes, size_t n, struct connect_target *ret, enum socks_reply *reply)
{
	size_t len = 0;
	enum parsed r = socks_request((const uint8_t *)bytes, n, ret, &len, reply);
	ck_assert(r != PARSED_OK || len <= n);
	return r;
}
#define REQUEST(text, t, reply) request(text, sizeof text - 1, t, reply)

START_TEST(socks_greetings_and_requests_are_parsed)
{
	struct connect_target t;
	enum socks_reply reply;
	size_t len;
	bool ok;
	ck_assert_int_eq(socks_greeting((const uint8_t *)"\5\2\2\0", 4, &len, &ok), PARSED_OK);
	ck_assert(ok && len == 4);
	ck_assert_int_eq(socks_greeting((const uint8_t *)"\5\1\2", 3, &len, &ok), PARSED_OK);
	ck_assert(!ok);
	ck_assert_int_eq(socks_greeting((const uint8_t *)"\5\2\2", 3, &len, &ok), PARSED_MORE);
	ck_assert_int_eq(socks_greeting((const uint8_t *)"\4\1", 2, &len, &ok), PARSED_BAD);
	ck_assert_int_eq(REQUEST("\5\1\0\3\6A.test\1\273", &t, &reply), PARSED_OK);
	ck_assert(!t.is_address && t.port == 443);
	ck_assert_str_eq(t.host, "a.test");
	ck_assert_int_eq(REQUEST("\5\1\0\1\177\0\0\1\0\120", &t, &reply), PARSED_OK);
	ck_assert(t.is_address && t.port == 80);
	ck_assert_str_eq(t.host, "127.0.0.1");
	ck_assert_int_eq(REQUEST("\5\1\0\4\0\0\0\0\0\0\0\0\0\0\377\377\177\0\0\1\0\120", &t, &reply), PARSED_OK);
	ck_assert_str_eq(t.host, "127.0.0.1"); /* normalized */
	ck_assert_int_eq(REQUEST("\5\1\0\3\11"
				 "127.0.0.1\0\120",
				 &t, &reply),
			 PARSED_OK);
	ck_assert(t.is_address);
	ck_assert_int_eq(REQUEST("\5\1\0\3\6A.tes", &t, &reply), PARSED_MORE);
	ck_assert_int_eq(REQUEST("\5\2\0\1\177\0\0\1\0\120", &t, &reply), PARSED_BAD); /* BIND */
	ck_assert_int_eq(reply, SOCKS_NO_COMMAND);
	ck_assert_int_eq(REQUEST("\5\3\0\1\177\0\0\1\0\120", &t, &reply), PARSED_BAD); /* UDP */
	ck_assert_int_eq(REQUEST("\5\1\0\2\177\0\0\1\0\120", &t, &reply), PARSED_BAD);
	ck_assert_int_eq(reply, SOCKS_NO_ADDRESS);
	ck_assert_int_eq(REQUEST("\5\1\0\3\5"
				 "127.1\0\120",
				 &t, &reply),
			 PARSED_BAD);
	ck_assert_int_eq(REQUEST("\5\1\0\3\6a\0.tes\0\120", &t, &reply), PARSED_BAD);
	ck_assert_int_eq(REQUEST("\5\1\0\3\6a.test\0\0", &t, &reply), PARSED_BAD);
}
END_TEST

/* ---- reports ---- */

START_TEST(reports_are_added_up_and_sent_once)
{
	struct traffic_report r = { 0 };
	traffic_report_denied(&r, "a.test", 80, "", PROXY_NOT_LISTED);
	traffic_report_denied(&r, "a.test", 80, "", PROXY_NOT_LISTED);
	traffic_report_denied(&r, "a.test", 80, "", PROXY_DENIED);
	traffic_report_add(&r, "b.test", 443, 1, 10, 20);
	traffic_report_add(&r, "b.test", 443, 1, 5, 5);
	struct traffic_report_row *row = traffic_report_next(&r);
	ck_assert(row->msg.kind == PROXY_REFUSED && row->msg.count == 2);
	traffic_report_sent(row);
	row = traffic_report_next(&r);
	ck_assert(row->msg.reason == PROXY_DENIED && row->msg.count == 1);
	traffic_report_sent(row);
	row = traffic_report_next(&r);
	ck_assert(row->msg.kind == PROXY_TRAFFIC && row->msg.count == 2 && row->msg.sent == 15 &&
		  row->msg.received == 25);
	traffic_report_sent(row);
	ck_assert_ptr_null(traffic_report_next(&r));
	traffic_report_add(&r, "b.test", 443, 1, 1, 1);
	traffic_report_resend(&r); /* another runtime: all traffic, but only new denials */
	row = traffic_report_next(&r);
	ck_assert(row->msg.kind == PROXY_TRAFFIC && row->msg.count == 3 && row->msg.sent == 16 &&
		  row->msg.received == 26);
	traffic_report_sent(row);
	ck_assert_ptr_null(traffic_report_next(&r));
	traffic_report_done(&r);
}
END_TEST

START_TEST(the_number_of_reports_is_bounded)
{
	struct traffic_report r = { 0 };
	uint64_t sum = 0;
	for (int i = 0; i < 10000; i++) {
		char host[32];
		snprintf(host, sizeof host, "h%d.test", i);
		traffic_report_denied(&r, host, 80, "", PROXY_NOT_LISTED);
	}
	ck_assert_uint_le(r.count, TRAFFIC_REPORT_ROWS_MAX + 1);
	for (struct traffic_report_row *row; (row = traffic_report_next(&r)); traffic_report_sent(row))
		sum += row->msg.count;
	ck_assert_uint_eq(sum, 10000);
	traffic_report_done(&r);
}
END_TEST

int main(void)
{
	return SUITE("tunnel", server_names_are_found, malformed_hellos_are_rejected,
		     socks_greetings_and_requests_are_parsed, reports_are_added_up_and_sent_once,
		     the_number_of_reports_is_bounded);
}
