#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "sandbox/host_rule.h"
#include "tests/unit/suite.h"

#include <string.h>

/* Rules from texts; one that begins with '!' denies. */
static void rules_of(struct host_rules *s, const char *const *texts)
{
	*s = (struct host_rules){ 0 };
	for (size_t i = 0; texts[i]; i++) {
		struct host_rule r;
		struct err e = ERR_INIT;
		bool deny = texts[i][0] == '!';
		ck_assert_msg(host_rule_parse(texts[i] + deny, deny, &r, &e) == 0, "%s: %s", texts[i], e.message);
		ck_assert(host_rule_valid(&r));
		host_rules_add(s, &r);
	}
}
#define RULES(name, ...)        \
	struct host_rules name; \
	rules_of(&name, (const char *const[]){ __VA_ARGS__, NULL })

static enum host_verdict address(const struct host_rules *s, const char *name, const char *text, uint16_t port)
{
	struct net_address a;
	ck_assert_msg(net_address_parse(text, &a), "%s", text);
	return host_rules_address(s, name, &a, port);
}

START_TEST(rules_are_parsed_and_formatted)
{
	static const char *const same[] = {
		"example.com",
		"example.com:443",
		"*.example.com",
		"*.example.com:8080",
		"*",
		"*:443",
		"192.0.2.7",
		"192.0.2.7:80",
		"10.0.0.0/8",
		"10.0.0.0/8:5432",
		"::1",
		"[::1]:80",
		"fd00::/8",
		"[fd00::/8]:443",
		"0.0.0.0/0",
		"my_host.test",
		"xn--bcher-kva.example",
	};
	for (size_t i = 0; i < countof(same); i++) {
		buf_auto struct buf out = BUF_INIT;
		struct host_rule r;
		struct err e = ERR_INIT;
		ck_assert_msg(host_rule_parse(same[i], false, &r, &e) == 0, "%s: %s", same[i], e.message);
		host_rule_text(&r, &out);
		ck_assert_str_eq(buf_cstr(&out), same[i]);
	}
}
END_TEST

START_TEST(spellings_are_normalized)
{
	static const char *const pairs[][2] = {
		{ "EXAMPLE.com.", "example.com" },
		{ "::ffff:127.0.0.1", "127.0.0.1" },
		{ "[::ffff:7f00:1]:80", "127.0.0.1:80" },
		{ "0:0:0:0:0:0:0:1", "::1" },
	};
	for (size_t i = 0; i < countof(pairs); i++) {
		buf_auto struct buf out = BUF_INIT;
		struct host_rule r;
		ck_assert(host_rule_parse(pairs[i][0], false, &r, NULL) == 0);
		host_rule_text(&r, &out);
		ck_assert_str_eq(buf_cstr(&out), pairs[i][1]);
	}
}
END_TEST

START_TEST(invalid_rules_are_rejected)
{
	static const char *const bad[] = {
		"",          ":",          ":80",       "a:",        "a:0",        "a:65536",
		"a:http",    "http://a",   "a/b",       "a b",       "*.*.a",      "a.*",
		"**",        "*a",         ".a",        "a..b",      "-",          "127.1",
		"0x7f.1",    "2130706433", "1.2.3.4.5", "1.2.3.256", "10.0.0.1/8", "10.0.0.0/33",
		"10.0.0.0/", "fd00::1/8",  "[::1",      "::1]",      "a\n",        "buch\xc3\xa4.example",
		"user@host",
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct host_rule r;
		struct err e = ERR_INIT;
		bool fine = strcmp(bad[i], "-") == 0; /* a label of hyphens is not a valid DNS name, but harmless */
		ck_assert_msg((host_rule_parse(bad[i], false, &r, &e) == 0) == fine, "%s", bad[i]);
	}
}
END_TEST

START_TEST(names_match_rules)
{
	RULES(s, "example.com:443", "*.example.org", "!evil.example.org", "plain.test");
	ck_assert_int_eq(host_rules_name(&s, "example.com", 443), HOST_ALLOWED);
	ck_assert_int_eq(host_rules_name(&s, "example.com", 80), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "www.example.com", 443), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "notexample.com", 443), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "example.com.evil.test", 443), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "a.example.org", 1), HOST_ALLOWED);
	ck_assert_int_eq(host_rules_name(&s, "a.b.example.org", 1), HOST_ALLOWED);
	ck_assert_int_eq(host_rules_name(&s, "example.org", 1), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "evilexample.org", 1), HOST_NOT_LISTED);
	ck_assert_int_eq(host_rules_name(&s, "evil.example.org", 1), HOST_DENIED);
	ck_assert_int_eq(host_rules_name(&s, "plain.test", 65535), HOST_ALLOWED);
	host_rules_done(&s);
}
END_TEST

START_TEST(denials_win_in_any_order)
{
	RULES(a, "!x.test:80", "*");
	RULES(b, "*", "!x.test:80");
	ck_assert_int_eq(host_rules_name(&a, "x.test", 80), HOST_DENIED);
	ck_assert_int_eq(host_rules_name(&b, "x.test", 80), HOST_DENIED);
	ck_assert_int_eq(host_rules_name(&a, "x.test", 443), HOST_ALLOWED);
	host_rules_done(&a);
	host_rules_done(&b);
}
END_TEST

/* An allowed name may still resolve to an unintended address. */
START_TEST(internal_addresses_need_an_explicit_rule)
{
	static const char *const inside[] = {
		"127.0.0.1",
		"127.8.8.8",
		"0.0.0.0",
		"10.1.2.3",
		"172.16.0.1",
		"172.31.255.255",
		"192.168.1.1",
		"169.254.1.1",
		"169.254.169.254",
		"100.64.0.1",
		"100.127.255.255",
		"224.0.0.1",
		"255.255.255.255",
		"198.18.0.1",
		"192.0.2.1",
		"::",
		"::1",
		"::ffff:127.0.0.1",
		"::ffff:10.0.0.1",
		"::ffff:169.254.169.254",
		"::127.0.0.1",
		"64:ff9b::7f00:1",
		"64:ff9b::a9fe:a9fe",
		"64:ff9b:1::1",
		"fe80::1",
		"fd00:ec2::254",
		"fc00::1",
		"fdff::1",
		"fec0::1",
		"ff02::1",
		"2001:db8::1",
		"2002:7f00:1::",
		"2001::1",
		"100::1",
		"168.63.129.16",
		"100.100.100.200",
		"4000::1",
	};
	RULES(s, "*", "example.test:80", "0.0.0.0/0", "::/0");
	for (size_t i = 0; i < countof(inside); i++) {
		ck_assert_msg(address(&s, "example.test", inside[i], 80) == HOST_INSIDE, "%s", inside[i]);
		ck_assert_msg(address(&s, NULL, inside[i], 80) == HOST_INSIDE, "%s as such", inside[i]);
	}
	static const char *const outside[] = { "93.184.216.34", "8.8.8.8",         "172.32.0.1",      "100.128.0.1",
					       "169.253.0.1",   "2606:4700::1111", "64:ff9b::808:808" };
	for (size_t i = 0; i < countof(outside); i++)
		ck_assert_msg(address(&s, "example.test", outside[i], 80) == HOST_ALLOWED, "%s", outside[i]);
	host_rules_done(&s);
}
END_TEST

START_TEST(address_rules_permit_internal_addresses)
{
	RULES(s, "x.test", "127.0.0.1:8080", "10.1.0.0/16", "169.254.0.0/16", "[fd00:ec2::254]:80");
	ck_assert_int_eq(address(&s, "x.test", "127.0.0.1", 8080), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, NULL, "127.0.0.1", 8080), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, "x.test", "127.0.0.1", 8081), HOST_INSIDE);
	ck_assert_int_eq(address(&s, NULL, "127.0.0.1", 8081), HOST_NOT_LISTED);
	ck_assert_int_eq(address(&s, "x.test", "127.0.0.2", 8080), HOST_INSIDE);
	ck_assert_int_eq(address(&s, NULL, "10.1.255.1", 1), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, NULL, "10.2.0.1", 1), HOST_NOT_LISTED);
	ck_assert_int_eq(address(&s, NULL, "169.254.1.1", 1), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, NULL, "169.254.169.254", 80), HOST_INSIDE); /* only as a single address */
	ck_assert_int_eq(address(&s, NULL, "fd00:ec2::254", 80), HOST_ALLOWED);
	host_rules_done(&s);
}
END_TEST

START_TEST(localhost_permits_only_loopback_addresses)
{
	RULES(s, "localhost:8080");
	RULES(any, "*");
	ck_assert_int_eq(host_rules_name(&s, "localhost", 8080), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, "localhost", "127.0.0.1", 8080), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, "localhost", "::1", 8080), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, "localhost", "10.0.0.1", 8080), HOST_INSIDE);
	ck_assert_int_eq(address(&s, "localhost", "127.0.0.1", 80), HOST_INSIDE);
	ck_assert_int_eq(address(&s, "other.test", "127.0.0.1", 8080), HOST_INSIDE);
	ck_assert_int_eq(address(&any, "localhost", "127.0.0.1", 80), HOST_INSIDE);
	ck_assert(host_rules_allow_literal(&s, "localhost") && !host_rules_allow_literal(&s, "127.0.0.1") &&
		  !host_rules_allow_literal(&any, "localhost"));
	host_rules_done(&s);
	host_rules_done(&any);
}
END_TEST

START_TEST(a_literal_address_needs_an_address_rule)
{
	RULES(s, "*", "!8.8.4.4");
	ck_assert_int_eq(address(&s, NULL, "8.8.8.8", 443), HOST_NOT_LISTED);
	ck_assert_int_eq(address(&s, "dns.test", "8.8.8.8", 443), HOST_ALLOWED);
	ck_assert_int_eq(address(&s, "dns.test", "8.8.4.4", 443), HOST_DENIED);
	host_rules_done(&s);
}
END_TEST

START_TEST(rules_cover_narrower_rules)
{
	RULES(s, "a.test:443", "*.b.test", "10.0.0.0/8", "!no.b.test", "c.test");
	static const struct {
		const char *text;
		bool covered;
	} rows[] = {
		{ "a.test:443", true }, { "a.test", false },        { "a.test:80", false }, { "x.b.test", true },
		{ "x.b.test:1", true }, { "*.x.b.test", true },     { "*.b.test", true },   { "b.test", false },
		{ "10.1.2.3", true },   { "10.1.0.0/16:22", true }, { "8.0.0.0/6", false }, { "11.0.0.1", false },
		{ "*", false },         { "c.test:8080", true },    { "d.c.test", false },
	};
	for (size_t i = 0; i < countof(rows); i++) {
		struct host_rule r;
		ck_assert(host_rule_parse(rows[i].text, false, &r, NULL) == 0);
		ck_assert_msg(host_rules_include(&s, &r) == rows[i].covered, "%s", rows[i].text);
	}
	host_rules_done(&s);
}
END_TEST

int main(void)
{
	return SUITE("host_rule", rules_are_parsed_and_formatted, spellings_are_normalized, invalid_rules_are_rejected,
		     names_match_rules, denials_win_in_any_order, internal_addresses_need_an_explicit_rule,
		     address_rules_permit_internal_addresses, localhost_permits_only_loopback_addresses,
		     a_literal_address_needs_an_address_rule, rules_cover_narrower_rules);
}
