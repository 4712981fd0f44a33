#include "runtime/event/event.h"
#include "runtime/event/payload.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(every_type_is_found_by_its_name)
{
	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const char *name = event_info(t)->name;

		ck_assert_int_eq(event_type_find(name, strlen(name)), t);
	}
	ck_assert_int_eq(event_type_find("process.starte", 14), -1);
	ck_assert_int_eq(event_type_find("process.started.", 16), -1);
	ck_assert_int_eq(event_type_find("process.startedX", 15), EVENT_PROCESS_STARTED);
	ck_assert_int_eq(event_type_find("", 0), -1);
	ck_assert_ptr_null(event_info(EVENT_TYPE_COUNT));
}
END_TEST

/* Numbers are stored on disk and must never change. */
START_TEST(stored_numbers_do_not_change)
{
	ck_assert_int_eq(EVENT_SESSION_CREATED, 0);
	ck_assert_int_eq(EVENT_RUN_STATUS, 26);
	ck_assert_int_eq(EVENT_RUNTIME_WARNING, 56);
	ck_assert_int_eq(EVENT_PROCESS_STARTED, 67);
	ck_assert_int_eq(EVENT_PROCESS_TERMINATED, 72);
	ck_assert_int_eq(EVENT_OUTPUT_SPILLED, 104);
	ck_assert_int_eq(EVENT_HISTORY_RECONSTRUCTED, 109);
	ck_assert_int_eq(EVENT_BENCHMARK_COMPARISON_COMPLETED, 119);
	ck_assert_int_eq(EVENT_ITEM_COMPLETED, 125);
	ck_assert_int_eq(EVENT_PROCESS_COMMAND_EXITED, 126);
	ck_assert_int_eq(EVENT_SESSION_EXPIRED, 127);
	ck_assert_int_eq(EVENT_SANDBOX_AUTORUN_CHANGED, 128);
	ck_assert_int_eq(ID_SESSION, 0);
	ck_assert_int_eq(ID_PROCESS, 4);
	ck_assert_int_eq(ID_OUTPUT, 18);
	ck_assert_int_eq(ID_SPAN, 23);
}
END_TEST

static bool family(const char *name, const char *prefix) { return strncmp(name, prefix, strlen(prefix)) == 0; }

START_TEST(families_have_the_ids_that_the_profile_requires)
{
	const uint32_t turn = 1u << ID_THREAD | 1u << ID_TURN;
	static const char *const of_turns[] = { "turn.",       "model.",      "reasoning.", "tool.",    "action.",
						"permission.", "sandbox.",    "hook.",      "context.", "routing.",
						"cost.",       "rate_limit.", "quota." };
	static const struct {
		const char *prefix;
		uint32_t ids;
	} rest[] = {
		{ "thread.", 1u << ID_THREAD },
		{ "tool.", 1u << ID_STEP | 1u << ID_TOOL_CALL },
		{ "action.", 1u << ID_ACTION },
		{ "task.", 1u << ID_TASK },
		{ "task.attempt.", 1u << ID_RUN },
		{ "subagent.", 1u << ID_SUBAGENT },
		{ "evidence.", 1u << ID_EVIDENCE },
		{ "process.", 1u << ID_PROCESS },
		{ "output.", 1u << ID_OUTPUT },
		{ "benchmark.trial.", 1u << ID_TASK | 1u << ID_RUN },
		{ "benchmark.reward.", 1u << ID_TASK | 1u << ID_RUN },
		{ "benchmark.trial.started", turn },
	};

	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const struct event_info *info = event_info(t);
		uint32_t want = 0;

		for (size_t i = 0; i < sizeof(of_turns) / sizeof(of_turns[0]); i++)
			want |= family(info->name, of_turns[i]) ? turn : 0;
		for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
			want |= family(info->name, rest[i].prefix) ? rest[i].ids : 0;
		ck_assert_msg((info->required_ids & want) == want, "%s", info->name);
		ck_assert_int_eq(strstr(info->required_members, "benchmark") != NULL, family(info->name, "benchmark."));
	}
}
END_TEST

START_TEST(rows_are_well_formed)
{
	static const char *const types[] = { "string", "int", "number", "bool", "object", "array", "any" };

	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const struct event_info *info = event_info(t);
		struct payload_member m;
		int count = 0;

		ck_assert_msg(info->cause[0], "%s", info->name);
		ck_assert_msg(info->extension == (t > EVENT_BENCHMARK_COMPARISON_COMPLETED), "%s", info->name);
		for (const char *p = info->payload; payload_member_next(&p, &m); count++) {
			bool known = false;

			for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
				known |= m.type_len == strlen(types[i]) && memcmp(m.type, types[i], m.type_len) == 0;
			ck_assert_msg(known, "%s: %.*s", info->name, (int)m.type_len, m.type);
			ck_assert_uint_gt(m.name_len, 0);
			ck_assert_msg(strcspn(m.name, "_ ") >= m.name_len, "%s: %.*s", info->name, (int)m.name_len,
				      m.name);
		}
		ck_assert_int_lt(count, PAYLOAD_MEMBERS_MAX);
	}
}
END_TEST

START_TEST(output_is_written_soon_and_ends_immediately)
{
	ck_assert_int_eq(event_info(EVENT_PROCESS_OUTPUT)->class, EVENT_SOON);
	ck_assert_int_eq(event_info(EVENT_MODEL_DELTA)->class, EVENT_SOON);
	ck_assert_int_eq(event_info(EVENT_PROCESS_STARTED)->class, EVENT_NOW);
	ck_assert_int_eq(event_info(EVENT_PROCESS_COMPLETED)->class, EVENT_NOW);
	ck_assert_int_eq(event_info(EVENT_PERMISSION_EVALUATED)->class, EVENT_NOW);
	ck_assert_int_eq(event_info(EVENT_PROCESS_COMPLETED)->origin, EVENT_BY_RUNTIME);
	ck_assert_int_eq(event_info(EVENT_MODEL_DELTA)->origin, EVENT_BY_CLIENT);
	ck_assert_int_eq(event_info(EVENT_TOOL_RESULT)->origin, EVENT_BY_OWNER);
}
END_TEST

int main(void)
{
	return SUITE("event_info", every_type_is_found_by_its_name, stored_numbers_do_not_change,
		     families_have_the_ids_that_the_profile_requires, rows_are_well_formed,
		     output_is_written_soon_and_ends_immediately);
}
