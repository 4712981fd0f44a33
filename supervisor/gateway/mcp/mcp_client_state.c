/*
 * A fixed table of processes whose output was shown, and the client's turn. For a process that was dropped from the
 * table the offset is 0: its output is shown again from the beginning rather than not at all.
 */

#include "supervisor/gateway/mcp/mcp_client_state.h"

#include "runtime/base/mem.h"
#include "supervisor/gateway/common/gateway_session.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define PROCESSES 128
#define STREAMS 3

/* How much of each stream of a process the client has seen. An unused row has an empty id and `used` 0. */
struct seen {
	char process_id[72];
	uint64_t used;
	struct {
		char name[16];
		uint64_t offset;
	} streams[STREAMS];
};

struct mcp_client_state {
	struct seen seen[PROCESSES];
	uint64_t clock;
	char turn[72];
	enum mcp_client_state_turn state;
	int uses;
};

struct mcp_client_state *mcp_client_state_new(void) { return mem_zalloc(1, sizeof(struct mcp_client_state)); }

void mcp_client_state_free(struct mcp_client_state *m, struct gateway_session *up)
{
	if (!m)
		return;
	if (m->state == MCP_TURN_OPEN && up && gateway_session_ready(up)) {
		json_t *params = json_pack("{ss}", "turnId", m->turn);

		/* With a tool call in progress the turn is interrupted, which ends the call as well. */
		if (m->uses > 0) {
			json_object_set_new(params, "sessionId", json_string(gateway_session_id(up)));
			json_object_set_new(params, "reason", json_string("the client has left"));
		}
		gateway_session_mutate(up, m->uses > 0 ? "interrupt_turn" : "complete_turn", params, NULL, NULL, NULL);
	}
	free(m);
}

/* The row of a process. If there is none: NULL or, with `make`, the least recently used row, cleared. */
static struct seen *find_offset(struct mcp_client_state *m, const char *process_id, bool make)
{
	struct seen *oldest = &m->seen[0];

	for (size_t i = 0; i < PROCESSES; i++) {
		if (strcmp(m->seen[i].process_id, process_id) == 0)
			return &m->seen[i];
		if (m->seen[i].used < oldest->used)
			oldest = &m->seen[i];
	}
	if (!make)
		return NULL;
	memset(oldest, 0, sizeof(*oldest));
	snprintf(oldest->process_id, sizeof(oldest->process_id), "%s", process_id);
	return oldest;
}

uint64_t mcp_client_state_offset(struct mcp_client_state *m, const char *process_id, const char *stream)
{
	struct seen *s = find_offset(m, process_id, false);

	for (size_t i = 0; s && i < STREAMS; i++)
		if (strcmp(s->streams[i].name, stream) == 0)
			return s->streams[i].offset;
	return 0;
}

void mcp_client_state_set_offset(struct mcp_client_state *m, const char *process_id, const char *stream,
				 uint64_t offset)
{
	struct seen *s = find_offset(m, process_id, true);

	s->used = ++m->clock;
	for (size_t i = 0; i < STREAMS; i++) {
		if (s->streams[i].name[0] && strcmp(s->streams[i].name, stream) != 0)
			continue;
		snprintf(s->streams[i].name, sizeof(s->streams[i].name), "%s", stream);
		s->streams[i].offset = offset;
		return;
	}
}

/* An id in the daemon's format, but entirely random: it does not encode a time. */
static void make_id(const char *prefix, char ret[72])
{
	static const char letters[] = "0123456789abcdefghjkmnpqrstvwxyz";
	unsigned char random[26];
	size_t n = strlen(prefix);

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		abort(); /* cannot happen for so few bytes */
	memcpy(ret, prefix, n);
	for (size_t i = 0; i < sizeof(random); i++)
		ret[n + i] = letters[random[i] & (i ? 31 : 7)]; /* the first letter encodes only three bits */
	ret[n + sizeof(random)] = '\0';
}

const char *mcp_client_state_turn(struct mcp_client_state *m)
{
	if (!m->turn[0])
		make_id("turn_", m->turn);
	return m->turn;
}

void mcp_client_state_call_id(char ret[72]) { make_id("call_", ret); }

enum mcp_client_state_turn mcp_client_state_turn_state(const struct mcp_client_state *m) { return m->state; }

void mcp_client_state_turn_is(struct mcp_client_state *m, enum mcp_client_state_turn state) { m->state = state; }

void mcp_client_state_turn_gone(struct mcp_client_state *m, const char *turn_id)
{
	if (strcmp(m->turn, turn_id) != 0)
		return;
	m->state = MCP_TURN_NONE;
	m->turn[0] = '\0';
}

void mcp_client_state_turn_uses(struct mcp_client_state *m, int more) { m->uses += more; }
