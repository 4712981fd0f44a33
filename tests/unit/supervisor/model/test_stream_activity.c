#include "runtime/base/mem.h"
#include "supervisor/model/stream_activity.h"
#include "tests/unit/suite.h"

#include <string.h>

START_TEST(keep_alives_are_not_data_wherever_they_are_split)
{
	static const struct {
		const char *text;
		bool data;
	} rows[] = {
		{ "", false },
		{ "\n\r\n\n", false },
		{ ": OPENROUTER PROCESSING\n\n", false },
		{ ":\n", false },
		{ "event: ping\ndata: {\"type\": \"ping\"}\n\n", false },
		{ "event:ping\r\ndata:{\"type\":\"ping\"}      \r\n\r\n", false },
		{ ": data: {\"x\":1}\n", false },
		{ "event: message_start\n", true },
		{ "data: {\"type\":\"message_stop\"}\n\n", true },
		{ "data: {\"type\":\"pin", false }, /* not known yet */
		{ "data: {\"type\":\"pint\"}", true },
		{ "data: [DONE]\n", true },
		{ "data: x", true },
		{ ": comment\ndata: {}\n", true },
		{ "\n\nid: 7\n", true },
		{ "retry: 10\n", true },
	};

	for (size_t i = 0; i < countof(rows); i++)
		for (size_t split = 0; split <= strlen(rows[i].text); split++) {
			struct stream_activity a = { 0 };
			bool data = stream_activity_feed(&a, rows[i].text, split);

			data |= stream_activity_feed(&a, rows[i].text + split, strlen(rows[i].text) - split);
			ck_assert_msg(data == rows[i].data, "%s split at %zu", rows[i].text, split);
		}
}
END_TEST

START_TEST(a_long_line_is_data_in_every_piece)
{
	struct stream_activity a = { 0 };

	ck_assert(stream_activity_feed(&a, "data: {\"text\":\"", 14));
	ck_assert(stream_activity_feed(&a, "xxxxxxxxxxxxxxx", 15));
	ck_assert(stream_activity_feed(&a, "y", 1));
	ck_assert(!stream_activity_feed(&a, "\n\n: ", 4));
}
END_TEST

int main(void)
{
	return SUITE("stream_activity", keep_alives_are_not_data_wherever_they_are_split,
		     a_long_line_is_data_in_every_piece);
}
