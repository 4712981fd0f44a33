/*
 * Runs the table of projections.def. Its operations become constant arrays of struct projection_op; a row runs for
 * each event of its type, in the order of the file. Speculative runs skip documents from which no decision is made.
 */

#include "runtime/view/projections.h"

#include "runtime/base/err.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <pthread.h>

typedef int (*project_fn)(struct models *m, const struct event_view *ev, struct err *e);

#define AT(document, member) .offset = offsetof(struct document##_doc, member)
#define MEMBERS { OP_MEMBERS },
#define STRING_FROM(document, member, from) { OP_STRING, AT(document, member), .text = from },
#define STRING(document, member) STRING_FROM(document, member, #member)
#define UINT(document, member) { OP_UINT, AT(document, member), .text = #member },
#define UINT_KEEP_FROM(document, member, from) { OP_UINT_KEEP, AT(document, member), .text = from },
#define UINT_KEEP(document, member) UINT_KEEP_FROM(document, member, #member)
#define FLAG(document, member) { OP_FLAG, AT(document, member), .text = #member },
#define TIME(document, member) { OP_TIME, AT(document, member), .text = #member },
#define JSON_FROM(document, member, from) { OP_JSON, AT(document, member), .text = from },
#define EVENT_ID(document, member, field) { OP_EVENT_ID, AT(document, member), .id = ID_##field },
#define STATUS(document) { OP_STATUS, AT(document, status) },
#define REASON(document) { OP_REASON, AT(document, statusReason) },
#define NOW(document, member) { OP_NOW, AT(document, member) },
#define SET(document, member, value) { OP_SET, AT(document, member), .text = value },
#define TRUE(document, member) { OP_TRUE, AT(document, member) },
#define CLEAR(document, member) { OP_CLEAR, AT(document, member) },
#define CLEAR_TIME(document, member) { OP_CLEAR_TIME, AT(document, member) },
#define INCREMENT(document, member) { OP_INCREMENT, AT(document, member) },
#define UNLESS(document, member) { OP_UNLESS, AT(document, member) },
#define LIST(code, document, LIST_KIND, owner, second) \
	{ code, AT(document, owner), .list = VIEW_##LIST_KIND, .other = second },
#define PUT(document, LIST_KIND, owner, member) \
	LIST(OP_PUT, document, LIST_KIND, owner, offsetof(struct document##_doc, member))
#define PUT_KEY(document, LIST_KIND, owner) LIST(OP_PUT, document, LIST_KIND, owner, SIZE_MAX)
#define DELETE(document, LIST_KIND, owner, member) \
	LIST(OP_DELETE, document, LIST_KIND, owner, offsetof(struct document##_doc, member))
#define DELETE_KEY(document, LIST_KIND, owner) LIST(OP_DELETE, document, LIST_KIND, owner, SIZE_MAX)
#define OPS(...) ((const struct projection_op[]){ __VA_ARGS__{ OP_END } })

static const struct {
	enum event_type type;
	const struct view_schema *schema;
	const struct projection_op *ops;
	projection_fn change;
	project_fn project; /* does it all, without ops and change */
} rows[] = {
#define PROJECT(type, document, ...) { EVENT_##type, &document##_schema, OPS(__VA_ARGS__) },
#define PROJECT_WITH(type, document, function, ...) { EVENT_##type, &document##_schema, OPS(__VA_ARGS__), function },
#define PROJECT_BY(type, document, function) { EVENT_##type, &document##_schema, NULL, NULL, function },
#include "runtime/view/projections.def"
};

const uint8_t view_growing_kinds[] = {
	VIEW_SESSION,
	VIEW_THREAD,
	VIEW_TURN,
	VIEW_PROCESS,
	VIEW_OUTPUT,
	VIEW_PREVIEW,
	VIEW_SESSION_THREAD,
	VIEW_THREAD_TURN,
	VIEW_TURN_PROCESS,
	VIEW_SESSION_PROCESS,
	VIEW_ENDED_PROCESS,
	VIEW_TOOL_CALL,
	VIEW_TURN_STEP,
	VIEW_TURN_TOOL_CALL,
	VIEW_MODEL_REQUEST,
	VIEW_SANDBOX_PROCESS,
	0,
};

/* The rows of each event type, in their order: the first one, and the next one after each, as index + 1. */
static uint16_t first_row[EVENT_TYPE_COUNT], next_row[countof(rows)];
static pthread_once_t rows_once = PTHREAD_ONCE_INIT;

static void link_rows(void)
{
	for (size_t i = countof(rows); i-- > 0;) {
		next_row[i] = first_row[rows[i].type];
		first_row[rows[i].type] = (uint16_t)(i + 1);
	}
}

/* A failure is the store's, never the event's, and aborts the transaction. */
static int project_event(struct models *m, const struct event_view *ev, bool speculative, struct err *e)
{
	struct event_index index;
	struct event_view indexed;

	pthread_once(&rows_once, link_rows);
	if (!first_row[ev->type])
		return 0;
	indexed = *ev;
	event_view_index(&indexed, &index);
	for (size_t i = first_row[ev->type]; i > 0; i = next_row[i - 1]) {
		if (speculative && !rows[i - 1].schema->speculative)
			continue;
		int r = rows[i - 1].project ? rows[i - 1].project(m, &indexed, e)
					    : projection_run(m, &indexed, rows[i - 1].schema, rows[i - 1].ops,
							     rows[i - 1].change, e);
		if (r < 0)
			return err_wrap(e, "project %s%s", event_info(ev->type)->name,
					speculative ? " speculatively" : "");
	}
	return 0;
}

int view_project(struct models *m, const struct event_view *ev, struct err *e)
{
	return project_event(m, ev, false, e);
}

int view_project_speculative(struct models *m, const struct event_view *ev, struct err *e)
{
	return project_event(m, ev, true, e);
}

char *view_policy_file_key(const char *layer, const char *file, uint32_t uid)
{
	char name[HASH_SHA256_TEXT];

	hash_sha256_text(file, strlen(file), name);
	return mem_printf("policy.%s.%u.%.16s", layer, uid, name);
}
