#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(allocations_of_zero_bytes_can_be_freed)
{
	free(mem_alloc(0));
	free(mem_zalloc(0, 8));
	free(mem_dup(NULL, 0));
	ck_assert_ptr_null(mem_strdup(NULL));
}
END_TEST

START_TEST(memory_is_zeroed_and_copied)
{
	mem_auto char *z = mem_zalloc(100, 3);
	mem_auto char *d = mem_dup("abc", 3);
	mem_auto char *n = mem_strndup("abcdef", 4);
	mem_auto char *p = mem_printf("%s-%d", "x", 7);

	for (int i = 0; i < 300; i++)
		ck_assert_int_eq(z[i], 0);
	ck_assert_mem_eq(d, "abc", 3);
	ck_assert_str_eq(n, "abcd");
	ck_assert_str_eq(p, "x-7");
}
END_TEST

START_TEST(take_leaves_null)
{
	mem_auto char *a = mem_strdup("a");
	char *b = mem_take(&a);

	ck_assert_ptr_null(a);
	ck_assert_str_eq(b, "a");
	free(b);
}
END_TEST

START_TEST(an_overflowing_size_ends_the_process)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		volatile size_t many = SIZE_MAX / 2;

		close(STDERR_FILENO);
		free(mem_zalloc(many, 8));
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}
END_TEST

int main(void)
{
	return SUITE("mem", allocations_of_zero_bytes_can_be_freed, memory_is_zeroed_and_copied, take_leaves_null,
		     an_overflowing_size_ends_the_process);
}
