#include "sandbox/refusing_resolver.h"
#include "tests/unit/suite.h"

#include <stdlib.h>
#include <string.h>

static unsigned char packet[RESOLVER_PACKET_MAX];
static char name[RESOLVER_NAME_MAX];

/* Builds a query for dotted labels, followed by an additional record as in EDNS. */
static size_t query(const char *dotted)
{
	size_t at = 12;

	memset(packet, 0, sizeof packet);
	packet[0] = 0xab;
	packet[2] = 1;
	packet[5] = 1;
	packet[11] = 1;
	while (*dotted) {
		size_t n = strcspn(dotted, ".");
		packet[at++] = (unsigned char)n;
		memcpy(packet + at, dotted, n);
		at += n;
		dotted += n + (dotted[n] == '.');
	}
	packet[at + 2] = packet[at + 4] = 1;
	return at + 5 + 11;
}

START_TEST(a_query_is_refused_and_its_name_reported)
{
	size_t n = query("Registry.Example.test"), answer = refusing_resolver_reply(packet, n, name);

	ck_assert_str_eq(name, "registry.example.test");
	ck_assert_uint_eq(answer, n - 11);
	ck_assert(packet[0] == 0xab && packet[2] == 0x81 && (packet[3] & 15) == 5 && packet[5] == 1 && packet[11] == 0);
}
END_TEST

START_TEST(invalid_host_names_are_not_reported)
{
	static const char *const odd[] = { "a b.test", "x\033[31m.test", "a.\xc3\xa9.test", "", "/etc/passwd" };

	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		ck_assert_uint_gt(refusing_resolver_reply(packet, query(odd[i]), name), 0);
		ck_assert_str_eq(name, "");
	}
	char longer[201];
	for (size_t i = 0; i < sizeof longer; i++)
		longer[i] = i % 50 == 49 ? '.' : 'a';
	longer[200] = 0;
	ck_assert_uint_gt(refusing_resolver_reply(packet, query(longer), name), 0);
	ck_assert_str_eq(name, "");
}
END_TEST

START_TEST(invalid_queries_get_no_reply)
{
	size_t n = query("a.test");

	for (size_t cut = 0; cut < n - 11; cut++) {
		query("a.test");
		ck_assert_uint_eq(refusing_resolver_reply(packet, cut, name), 0);
	}
	query("a.test");
	packet[2] |= 0x80; /* a response: two resolvers would reply to each other for ever */
	ck_assert_uint_eq(refusing_resolver_reply(packet, n, name), 0);
	query("a.test");
	packet[5] = 2;
	ck_assert_uint_eq(refusing_resolver_reply(packet, n, name), 0);
	query("a.test");
	packet[12] = 0xc0; /* a pointer */
	ck_assert_uint_eq(refusing_resolver_reply(packet, n, name), 0);
}
END_TEST

START_TEST(random_packets_are_handled_safely)
{
	srand(1);
	for (int i = 0; i < 200000; i++) {
		size_t n = (size_t)rand() % sizeof packet;
		for (size_t k = 0; k < n; k++)
			packet[k] = (unsigned char)(rand() % (k < 12 ? 2 : 70));
		size_t answer = refusing_resolver_reply(packet, n, name);
		ck_assert_uint_le(answer, n);
		ck_assert_uint_lt(strlen(name), RESOLVER_NAME_MAX);
	}
}
END_TEST

int main(void)
{
	return SUITE("refusing_resolver", a_query_is_refused_and_its_name_reported, invalid_host_names_are_not_reported,
		     invalid_queries_get_no_reply, random_packets_are_handled_safely);
}
