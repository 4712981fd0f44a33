/* The turn of a client's file tools. */

#include "supervisor/gateway/mcp/mcp_client_state.h"

#include "tests/unit/suite.h"

/* Two calls were made in a turn that another client ended: the second error arrives when the first call has opened the
 * next turn. */
START_TEST(the_end_of_an_earlier_turn_does_not_concern_the_next_one)
{
	struct mcp_client_state *m = mcp_client_state_new();
	char first[72], second[72];

	snprintf(first, sizeof(first), "%s", mcp_client_state_turn(m));
	mcp_client_state_turn_is(m, MCP_TURN_OPEN);
	mcp_client_state_turn_gone(m, first);
	ck_assert_int_eq(mcp_client_state_turn_state(m), MCP_TURN_NONE);
	snprintf(second, sizeof(second), "%s", mcp_client_state_turn(m));
	ck_assert_str_ne(second, first);
	for (int state = MCP_TURN_OPENING; state <= MCP_TURN_OPEN; state++) {
		mcp_client_state_turn_is(m, (enum mcp_client_state_turn)state);
		mcp_client_state_turn_gone(m, first);
		ck_assert_int_eq(mcp_client_state_turn_state(m), state);
		ck_assert_str_eq(mcp_client_state_turn(m), second);
	}
	mcp_client_state_turn_gone(m, second);
	ck_assert_int_eq(mcp_client_state_turn_state(m), MCP_TURN_NONE);
	mcp_client_state_free(m, NULL);
}
END_TEST

int main(void) { return SUITE("mcp_client_state", the_end_of_an_earlier_turn_does_not_concern_the_next_one); }
