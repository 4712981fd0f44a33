#include "supervisor/cli/cli_main.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/completion.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <string.h>

START_TEST(test_similar_verbs_and_subverbs_are_suggested)
{
	struct opt_table run = verb_options(verb_find(&cli_verbs, "run"));

	ck_assert_str_eq(verb_nearest(&cli_verbs, "kil"), "kill");
	ck_assert_str_eq(verb_nearest(&cli_verbs, "event"), "events");
	ck_assert_str_eq(verb_nearest(&cli_verbs, "rnu"), "run");
	ck_assert_str_eq(verb_nearest(&cli_verbs, "lgos"), "logs");
	ck_assert_ptr_null(verb_nearest(&cli_verbs, "xylophone"));
	ck_assert_str_eq(verb_of_subverb(&cli_verbs, "stop")->name, "daemon");
	ck_assert_str_eq(verb_of_subverb(&cli_verbs, "backup")->name, "store");
	ck_assert_ptr_null(verb_of_subverb(&cli_verbs, "list")); /* of several */
	ck_assert_ptr_null(verb_of_subverb(&cli_verbs, "sto"));
	ck_assert_ptr_null(verb_of_subverb(&cli_verbs, ""));
	ck_assert_ptr_null(verb_nearest(&cli_verbs, "a-very-long-word-that-is-no-verb-at-all"));
	ck_assert_str_eq(opts_nearest(&run, "timout"), "timeout");
}
END_TEST

/* Every row belongs to a verb, and no verb has a letter or a name twice. */
START_TEST(test_option_tables_are_consistent)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		bool found = false;

		for (size_t v = 0; v < cli_verbs.n; v++)
			found |= strcmp(cli_verbs.rows[v].key, option_rows[i].group) == 0;
		ck_assert(found);
		for (int j = 0; j < i; j++) {
			if (strcmp(option_rows[i].group, option_rows[j].group) != 0)
				continue;
			ck_assert_str_ne(option_rows[i].name, option_rows[j].name);
			ck_assert(!option_rows[i].letter || option_rows[i].letter != option_rows[j].letter);
		}
	}
}
END_TEST

/* Help breaks lines to fit into the terminal. */
static bool has_words(const struct buf *help, const char *words)
{
	buf_auto struct buf line = BUF_INIT;

	for (size_t i = 0; i < help->len; i++) {
		const bool space = help->data[i] == ' ' || help->data[i] == '\n';

		if (!space || (line.len && line.data[line.len - 1] != ' '))
			buf_byte(&line, space ? ' ' : help->data[i]);
	}
	return strstr(buf_cstr(&line), words) != NULL;
}

START_TEST(test_help_has_every_option)
{
	for (size_t v = 0; v < cli_verbs.n; v++) {
		buf_auto struct buf help = BUF_INIT;

		verb_help(&cli_verbs.rows[v], &help);
		ck_assert(has_words(&help, cli_verbs.rows[v].summary));
		for (int i = 0; i < OPT_COUNT; i++)
			if (strcmp(option_rows[i].group, cli_verbs.rows[v].name) == 0)
				ck_assert(has_words(&help, option_rows[i].help));
	}
}
END_TEST

START_TEST(test_overview_groups_the_verbs_one_a_line)
{
	buf_auto struct buf text = BUF_INIT;
	size_t last = 0, lines = 0;

	verb_overview(&cli_verbs, &text);
	ck_assert_uint_ge(cli_verbs.ngroups, 5);
	ck_assert_uint_eq(cli_verbs.groups[0].first, 0);
	for (size_t i = 0; i < cli_verbs.ngroups; i++) {
		mem_auto char *title = mem_printf("\n\n%s:\n  %s ", cli_verbs.groups[i].title,
						  cli_verbs.rows[cli_verbs.groups[i].first].name);

		ck_assert_msg(strstr(buf_cstr(&text), title) != NULL, "%s", title);
		ck_assert(i == 0 || cli_verbs.groups[i].first > last);
		last = cli_verbs.groups[i].first;
	}
	for (const char *s = buf_cstr(&text); (s = strstr(s, "\n  ")); s++, lines++)
		ck_assert_msg(s[3] != ' ', "a summary is too long: %.60s", s);
	ck_assert_uint_eq(lines, cli_verbs.n);
}
END_TEST

static void read_file(const char *path, struct buf *out)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	ck_assert_msg(fd >= 0, "%s: run this from the root of the tree", path);
	n = fd_read_all(fd, buf_reserve(out, 1 << 20), 1 << 20);
	ck_assert_int_gt(n, 0);
	out->len = (size_t)n;
	out->data[n] = 0;
}

START_TEST(test_generated_files_are_up_to_date)
{
	static const struct {
		const char *kind, *path;
	} files[] = {
		{ "bash", "packaging/completions/bailiff.bash" },
		{ "zsh", "packaging/completions/_bailiff" },
		{ "fish", "packaging/completions/bailiff.fish" },
		{ "man", "docs/man/bailiff.1" },
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		buf_auto struct buf want = BUF_INIT, have = BUF_INIT;

		ck_assert(completion_write(&cli_verbs, files[i].kind, &want));
		read_file(files[i].path, &have);
		ck_assert_msg(strstr(have.data, want.data) != NULL,
			      "%s is out of date: put the output of `bailiff completion %s` into it", files[i].path,
			      files[i].kind);
	}
	ck_assert(!completion_write(&cli_verbs, "csh", &(struct buf){ 0 }));
}
END_TEST

int main(void)
{
	return SUITE("verb", test_similar_verbs_and_subverbs_are_suggested, test_option_tables_are_consistent,
		     test_help_has_every_option, test_overview_groups_the_verbs_one_a_line,
		     test_generated_files_are_up_to_date);
}
