#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "tests/unit/suite.h"

#include <stdio.h>
#include <string.h>

START_TEST(entries_can_be_put_read_and_deleted)
{
	struct strmap m = STRMAP_INIT;
	char key[] = "key";
	int a, b;

	ck_assert_ptr_null(strmap_get(&m, "key"));
	ck_assert_ptr_null(strmap_del(&m, "key"));
	ck_assert_ptr_null(strmap_put(&m, key, &a));
	memcpy(key, "xxx", 3); /* the map has its own copy */
	ck_assert_ptr_eq(strmap_get(&m, "key"), &a);
	ck_assert_ptr_eq(strmap_put(&m, "key", &b), &a);
	ck_assert_uint_eq(m.count, 1);
	ck_assert_ptr_eq(strmap_del(&m, "key"), &b);
	ck_assert_ptr_null(strmap_get(&m, "key"));
	ck_assert_uint_eq(m.count, 0);
	strmap_done(&m);
	strmap_done(&m);
}
END_TEST

START_TEST(thousands_of_keys_can_be_stored_and_deleted)
{
	static int values[5000];
	struct strmap m = STRMAP_INIT;
	char key[16];

	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		strmap_put(&m, key, &values[i]);
	}
	for (int i = 0; i < 5000; i += 2) {
		snprintf(key, sizeof(key), "k%d", i);
		ck_assert_ptr_eq(strmap_del(&m, key), &values[i]);
	}
	ck_assert_uint_eq(m.count, 2500);
	for (int i = 0; i < 5000; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		ck_assert_ptr_eq(strmap_get(&m, key), i % 2 ? &values[i] : NULL);
	}
	strmap_done(&m);
}
END_TEST

struct visit {
	struct strmap *m;
	int seen;
};

static void delete_entry(void *ctx, const char *key, void *value)
{
	struct visit *v = ctx;
	mem_auto char *copy = mem_strdup(key);

	v->seen++;
	*(int *)value += 1;
	ck_assert_ptr_eq(strmap_del(v->m, copy), value);
}

START_TEST(a_visitor_can_delete_its_entry)
{
	static int values[300];
	struct strmap m = STRMAP_INIT;
	struct visit v = { .m = &m };
	char key[16];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		strmap_put(&m, key, &values[i]);
	}
	strmap_each(&m, delete_entry, &v);
	ck_assert_int_eq(v.seen, 300);
	ck_assert_uint_eq(m.count, 0);
	for (int i = 0; i < 300; i++)
		ck_assert_int_eq(values[i], 1);
	strmap_done(&m);
}
END_TEST

/* Deletes the next entry and adds many, so that the table is reallocated. */
static void change_map(void *ctx, const char *key, void *value)
{
	struct visit *v = ctx;
	char other[16];
	unsigned long n = strtoul(key + 1, NULL, 10);

	ck_assert_int_eq(key[0], 'k');
	*(int *)value += 1;
	v->seen++;
	snprintf(other, sizeof(other), "k%lu", n ^ 1);
	strmap_del(v->m, other);
	for (int i = 0; i < 10; i++) {
		snprintf(other, sizeof(other), "n%lu", n * 10 + (unsigned long)i);
		strmap_put(v->m, other, value);
	}
}

START_TEST(a_visitor_can_change_the_map)
{
	static int values[300];
	struct strmap m = STRMAP_INIT;
	struct visit v = { .m = &m };
	char key[16];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		strmap_put(&m, key, &values[i]);
	}
	strmap_visit(&m, change_map, &v);
	ck_assert_int_eq(v.seen, 150);
	ck_assert_uint_eq(m.count, 150 + 1500);
	for (int i = 0; i < 300; i += 2)
		ck_assert_int_eq(values[i] + values[i + 1], 1);
	strmap_done(&m);
}
END_TEST

int main(void)
{
	return SUITE("strmap", entries_can_be_put_read_and_deleted, thousands_of_keys_can_be_stored_and_deleted,
		     a_visitor_can_delete_its_entry, a_visitor_can_change_the_map);
}
