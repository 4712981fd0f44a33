#include "runtime/base/clock.h"
#include "runtime/base/jscan.h"
#include "runtime/base/log.h"
#include "tests/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each test runs in its own process, so stderr need not be restored. */
static int stderr_to_pipe(void)
{
	int p[2];

	ck_assert_int_eq(pipe2(p, O_NONBLOCK), 0);
	ck_assert_int_ge(dup2(p[1], STDERR_FILENO), 0);
	close(p[1]);
	return p[0];
}

static const char *logged(int fd)
{
	static char text[8192];
	ssize_t n = read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

START_TEST(a_line_has_program_and_level)
{
	int fd = stderr_to_pipe();

	log_setup("bailiffd runtime", LOG_LEVEL_INFO, false);
	log_warning("disk has %d%% left", 3);
	ck_assert_str_eq(logged(fd), "bailiffd runtime: warning: disk has 3% left\n");
	log_error("x");
	ck_assert_str_eq(logged(fd), "bailiffd runtime: error: x\n");
}
END_TEST

START_TEST(a_line_in_a_file_begins_with_the_time)
{
	char path[] = "/tmp/test_log-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	unlink(path);
	ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
	log_setup("w", LOG_LEVEL_INFO, false);
	log_info("a");
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	const char *text = logged(fd), *rest = strchr(text, ' ');
	ck_assert_ptr_nonnull(rest);
	ck_assert(rest > text + 19 && rest[-1] == 'Z' && text[10] == 'T');
	ck_assert_str_eq(rest, " w: info: a\n");
	ck_assert_str_eq(log_line_message(text), "w: info: a\n");
	ck_assert_str_eq(log_line_message("2026-11-19 w"), "2026-11-19 w");
}
END_TEST

START_TEST(levels_below_the_threshold_are_not_logged)
{
	int fd = stderr_to_pipe();

	log_setup("w", LOG_LEVEL_WARNING, false);
	log_info("a");
	log_debug("b");
	ck_assert_str_eq(logged(fd), "");
	log_setup("w", LOG_LEVEL_DEBUG, false);
	log_debug("b");
	ck_assert_str_eq(logged(fd), "w: debug: b\n");
}
END_TEST

START_TEST(control_characters_in_messages_are_escaped)
{
	int fd = stderr_to_pipe();

	log_setup("w", LOG_LEVEL_INFO, false);
	log_info("%s", "a\nw: error: forged\033[2J");
	ck_assert_str_eq(logged(fd), "w: info: a\\nw: error: forged\\x1b[2J\n");
}
END_TEST

START_TEST(json_logs_are_one_object_per_line)
{
	int fd = stderr_to_pipe();
	const char *text;
	struct jval v;
	char time[64];
	uint64_t us;

	log_setup("bailiffd guard", LOG_LEVEL_INFO, true);
	errno = EXDEV;
	log_error("a \"b\"\nc");
	ck_assert_int_eq(errno, EXDEV);
	text = logged(fd);
	ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
	v = jval_of(text, strlen(text));
	ck_assert(jval_is_str(jval_get(v, "level"), "error"));
	ck_assert(jval_is_str(jval_get(v, "who"), "bailiffd guard"));
	ck_assert(jval_is_str(jval_get(v, "message"), "a \"b\"\nc"));
	ck_assert_int_eq(jval_int(jval_get(v, "pid"), 0), getpid());
	jval_str(jval_get(v, "time"), time, sizeof(time));
	ck_assert_int_eq(clock_parse(time, &us), 0);
}
END_TEST

START_TEST(priorities_are_written_only_to_the_journals_stream)
{
	int fd = stderr_to_pipe();
	char stream[64];
	struct stat st;

	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_setup("w", LOG_LEVEL_INFO, false);
	log_warning("x");
	ck_assert_str_eq(logged(fd), "<4>w: warning: x\n");
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_setup("w", LOG_LEVEL_INFO, false);
	log_warning("x");
	ck_assert_str_eq(logged(fd), "w: warning: x\n");
}
END_TEST

int main(void)
{
	return SUITE("log", a_line_has_program_and_level, a_line_in_a_file_begins_with_the_time,
		     levels_below_the_threshold_are_not_logged, control_characters_in_messages_are_escaped,
		     json_logs_are_one_object_per_line, priorities_are_written_only_to_the_journals_stream);
}
