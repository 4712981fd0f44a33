/* The logic of a node with a bus that has one task and one message, and a scripted daemon. */

#include "tests/unit/supervisor/fleet/fake_fleet.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"

#define LEASE 30000u

static char seed[FLEET_SEED_TEXT];
static struct fleet_node_config config = { .node = "n1", .instance = "rt_1", .arch = "any", .memory = 1, .cpus = 1 };
static struct fleet_node node;

/* Writes a document with these additional members of the spec, and with a claim if the state is "running". */
static void put_task(const char *more, enum fleet_state state, const char *owner, const char *instance)
{
	mem_auto char *spec = mem_printf("{\"v\":1,\"id\":\"t1\",\"command\":[\"true\"],\"submittedAt\":%llu%s}",
					 (unsigned long long)submitted_at, more);
	struct fleet_signed text = { 0 };
	struct fleet_task t;
	struct err e = ERR_INIT;

	ck_assert_msg(fleet_signed_make(seed, spec, &text, &e) == 0, "%s", e.message);
	ck_assert_msg(fleet_task_make(&text, &t, &e) == 0, "%s: %s", e.field, e.message);
	t.state = state;
	if (state == FLEET_RUNNING) {
		snprintf(t.node, sizeof(t.node), "%s", owner);
		snprintf(t.instance, sizeof(t.instance), "%s", instance);
		snprintf(t.claim, sizeof(t.claim), "other");
		t.attempt = 1;
	}
	buf_reset(&bus.text);
	fleet_task_write(&t, &bus.text);
	bus.revision += 10;
	bus.queued = true;
	fleet_task_done(&t);
}

static const char *state_of_task(void)
{
	static char ret[32];
	json_auto_t *root = json_loadb(bus.text.data, bus.text.len, 0, NULL);

	snprintf(ret, sizeof(ret), "%s", json_get_string(root, "state"));
	return ret;
}

static void setup(void)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(fleet_key_new(seed, submitter.key, &e), 0);
	config.labels = json_object();
	config.max_tasks = 1;
	config.submitters = &submitter;
	config.nsubmitters = 1;
	memset(&bus, 0, sizeof(bus));
	memset(&local, 0, sizeof(local));
	now = submitted_at = 1000;
	fleet_node_init(&node, &port, &fake_daemon, &config);
}

static void teardown(void)
{
	fleet_node_done(&node);
	json_decref(config.labels);
	buf_done(&bus.text);
	buf_done(&bus.entry);
	buf_done(&bus.record);
}

static void run_until(uint64_t until)
{
	for (; now <= until; now += 200) {
		node.woken = true;
		fleet_node_tick(&node, now, now);
	}
}

/* ---- tests ---- */

START_TEST(a_claim_is_durable_before_the_start)
{
	put_task("", FLEET_QUEUED, "", "");
	run_until(2000);
	ck_assert_msg(strncmp(bus.calls, "update create record start update", 33) == 0, "%s", bus.calls);
	ck_assert_uint_eq(local.token, 11);
	ck_assert_str_eq(state_of_task(), "running");
	local.ended = true;
	local.status = "completed";
	node.checks = true;
	run_until(3000);
	ck_assert_str_eq(state_of_task(), "completed");
	ck_assert_msg(strstr(bus.calls, "acknowledge"), "%s", bus.calls);
}
END_TEST

/* 20,000 documents, which take 20 s to read here. */
static void list_many(const char *lease)
{
	put_task(lease, FLEET_QUEUED, "", "");
	node.clock = read_clocks;
	run_until(2000);
	ck_assert(local.started);
	bus.many = 20000;
	buf_reset(&bus.entry);
	node.scan_at = 0;
	fleet_node_tick(&node, now, now);
	ck_assert_uint_ge(now, 22000);
	ck_assert_msg(!local.lapsed, "the lease was over before the list was read");
	ck_assert_msg(bus.entry.len, "the node's entry was not renewed");
	run_until(now + 1000);
	ck_assert_str_eq(local.reason, "");
	ck_assert_str_eq(state_of_task(), "running");
}

START_TEST(a_lease_is_renewed_while_many_documents_are_listed) { list_many(""); }
END_TEST

START_TEST(a_short_lease_is_renewed_while_many_documents_are_listed) { list_many(",\"leaseMs\":2000"); }
END_TEST

START_TEST(of_two_claims_one_wins)
{
	put_task("", FLEET_QUEUED, "", "");
	bus.raced = true;
	run_until(1500);
	ck_assert_str_eq(bus.calls, "put_back");
	ck_assert(!local.known);
}
END_TEST

START_TEST(without_a_reply_to_the_claim_nothing_starts)
{
	put_task("", FLEET_QUEUED, "", "");
	bus.down = true;
	run_until(2000);
	ck_assert_str_eq(bus.calls, "");
	ck_assert(!local.known);
}
END_TEST

START_TEST(a_claim_of_another_node_is_lost_after_its_whole_lease)
{
	put_task("", FLEET_RUNNING, "n2", "rt_2");
	run_until(1000 + LEASE);
	ck_assert_str_eq(state_of_task(), "running");
	run_until(1000 + LEASE + 1000);
	ck_assert_str_eq(state_of_task(), "lost");
	ck_assert(!local.known);
}
END_TEST

START_TEST(a_renewed_claim_is_not_lost)
{
	put_task("", FLEET_RUNNING, "n2", "rt_2");
	run_until(20000);
	bus.revision++;
	run_until(1000 + LEASE + 1000);
	ck_assert_str_eq(state_of_task(), "running");
	ck_assert_msg(strstr(bus.calls, "put_back"), "%s", bus.calls);
}
END_TEST

/* A claim with this name by another daemon may still run there, so its lease is waited for, too. */
START_TEST(a_claim_with_the_same_name_by_another_daemon_keeps_its_lease)
{
	put_task("", FLEET_RUNNING, "n1", "rt_2");
	run_until(20000);
	ck_assert_str_eq(state_of_task(), "running");
	ck_assert(!local.known);
	put_task("", FLEET_RUNNING, "n1", "rt_1"); /* its own claim, which the daemon does not know: never started */
	fleet_node_done(&node);
	fleet_node_init(&node, &port, &fake_daemon, &config);
	run_until(21000);
	ck_assert_str_eq(state_of_task(), "queued");
}
END_TEST

START_TEST(a_task_that_another_node_took_is_ended_and_not_written)
{
	put_task("", FLEET_QUEUED, "", "");
	run_until(2000);
	ck_assert(local.started);
	put_task("", FLEET_RUNNING, "n2", "rt_2");
	bus.queued = false;
	const uint64_t revision = bus.revision;
	run_until(2000 + LEASE / 3 + 1000);
	ck_assert_str_eq(local.reason, "claim_taken");
	ck_assert_uint_eq(bus.revision, revision);
	ck_assert_ptr_null(node.runs);
}
END_TEST

START_TEST(a_change_by_a_client_does_not_end_a_claim)
{
	put_task("", FLEET_QUEUED, "", "");
	run_until(2000);
	bus.revision += 5; /* as a cancel request that does not verify would */
	run_until(2000 + 2 * LEASE);
	ck_assert_str_eq(local.reason, "");
	ck_assert_str_eq(state_of_task(), "running");
	ck_assert_uint_gt(local.until, now);
}
END_TEST

START_TEST(a_task_without_renewal_ends_within_the_lease)
{
	put_task("", FLEET_QUEUED, "", "");
	run_until(2000);
	const uint64_t until = local.until;
	bus.down = true;
	run_until(until - 200);
	ck_assert_str_eq(local.reason, "");
	run_until(until + 200);
	ck_assert_str_eq(local.reason, "lease_over");
	ck_assert_uint_le(until, 2000 + LEASE / 3 * 2);
}
END_TEST

START_TEST(only_one_daemon_can_use_a_name)
{
	put_task("", FLEET_QUEUED, "", "");
	bus.other = "rt_2";
	run_until(5000);
	ck_assert(node.refused && !node.named && bus.queued);
	bus.other = NULL; /* it has expired */
	run_until(7000);
	ck_assert(node.named && !node.refused && local.started);
	fleet_node_done(&node);
	fleet_node_init(&node, &port, &fake_daemon, &config); /* the entry of its earlier process */
	run_until(now + 400);
	ck_assert(node.named);
}
END_TEST

START_TEST(a_wakeup_is_kept_until_tasks_can_be_fetched)
{
	drains = true;
	node.woken = true;
	ck_assert_uint_gt(fleet_node_tick(&node, now, now), now);
	ck_assert(node.woken); /* tasks are fetched afterwards */
	drains = false;
	(void)fleet_node_tick(&node, now, now);
	ck_assert(!node.woken);
	bus.other = "rt_2";
	node.named = false;
	node.entry_revision = 0;
	node.woken = true;
	ck_assert_uint_gt(fleet_node_tick(&node, now, now), now);
}
END_TEST

START_TEST(a_nearer_node_is_preferred)
{
	put_task(",\"near\":[\"n2\"]", FLEET_QUEUED, "", "");
	bus.near_is_free = true;
	run_until(1500);
	ck_assert_str_eq(bus.calls, "put_back");
	bus.queued = true;
	run_until(3000);
	ck_assert_str_eq(bus.calls, "put_back put_back");
	bus.queued = true; /* still queued: the nearer node did not take it */
	run_until(5000);
	bus.queued = true;
	run_until(6000);
	ck_assert(local.started);
}
END_TEST

START_TEST(a_nearer_node_without_capacity_is_ignored)
{
	put_task(",\"near\":[\"n2\"]", FLEET_QUEUED, "", "");
	run_until(1500);
	ck_assert(local.started);
}
END_TEST

static void end_local(const char *how)
{
	local.ended = true;
	local.status = how;
	node.checks = true;
	run_until(now + 1000);
}

/* Queues the task again, as a client with write access to documents could. */
static void queue_again(const char *more, uint64_t attempt)
{
	struct fleet_task t;
	struct err e = ERR_INIT;

	put_task(more, FLEET_QUEUED, "", "");
	ck_assert_int_eq(fleet_task_parse(bus.text.data, bus.text.len, &t, &e), 0);
	t.attempt = attempt;
	buf_reset(&bus.text);
	fleet_task_write(&t, &bus.text);
	fleet_task_done(&t);
	memset(&local, 0, sizeof(local));
}

START_TEST(a_completed_task_does_not_start_again)
{
	static const char more[] = ",\"retries\":2,\"retryLost\":2";

	put_task(more, FLEET_QUEUED, "", "");
	run_until(2000);
	ck_assert(local.started);
	end_local("completed");
	ck_assert_str_eq(state_of_task(), "completed");
	for (uint64_t attempt = 0; attempt < 3; attempt++) {
		queue_again(more, attempt);
		run_until(now + 2 * LEASE);
		ck_assert(!local.known);
		ck_assert_str_eq(state_of_task(), "lost");
	}
}
END_TEST

START_TEST(each_attempt_starts_once)
{
	static const char more[] = ",\"retries\":1";

	put_task(more, FLEET_QUEUED, "", "");
	run_until(2000);
	end_local("failed");
	ck_assert_str_eq(state_of_task(), "queued"); /* one more attempt */
	queue_again(more, 0);                        /* the first one again */
	run_until(now + 1000);
	ck_assert(!local.known);
	queue_again(more, 1);
	run_until(now + 1000);
	ck_assert(local.started);
	end_local("failed");
	queue_again(more, 1);
	run_until(now + 1000);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "lost");
}
END_TEST

/* Another node may still run it, whatever the document contains. */
START_TEST(an_attempt_waits_for_the_lease_of_the_previous_one)
{
	static const char more[] = ",\"retryLost\":1";

	buf_str(&bus.record, "{\"v\":1,\"state\":\"running\",\"attempt\":1,\"claim\":\"other\"}");
	bus.record_revision = 1;
	queue_again(more, 1);
	run_until(1000 + LEASE - 200);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "running");
	run_until(1000 + LEASE + 7000);
	ck_assert(local.started);
}
END_TEST

/* The record is still that of the earlier attempt. */
START_TEST(a_takeover_that_did_not_start_keeps_the_earlier_record)
{
	static const char more[] = ",\"retryLost\":1";

	buf_str(&bus.record, "{\"v\":1,\"state\":\"running\",\"attempt\":1,\"claim\":\"other\"}");
	bus.record_revision = 1;
	bus.unrecorded = 2;
	queue_again(more, 1);
	run_until(1000 + LEASE + 7000);
	ck_assert(!local.started);
	ck_assert_str_eq(state_of_task(), "queued");
	json_auto_t *record = json_loadb(bus.record.data, bus.record.len, 0, NULL);
	ck_assert_str_eq(json_get_text(record, "state"), "running");
	ck_assert_uint_eq(json_get_uint(record, "attempt"), 1);
}
END_TEST

/* The document alone is not enough: a client may have written it. */
START_TEST(a_running_attempt_needs_its_record)
{
	put_task(",\"retryLost\":1", FLEET_QUEUED, "", "");
	run_until(2000);
	ck_assert(local.started);
	buf_reset(&bus.record);
	buf_str(&bus.record, "{\"v\":1,\"state\":\"running\",\"attempt\":1,\"claim\":\"other\"}");
	bus.record_revision++;
	run_until(2000 + LEASE / 3 + 1000);
	ck_assert_str_eq(local.reason, "claim_taken");
	ck_assert_str_eq(buf_cstr(&bus.record), "{\"v\":1,\"state\":\"running\",\"attempt\":1,\"claim\":\"other\"}");
}
END_TEST

START_TEST(a_retry_request_starts_only_the_attempt_that_it_names)
{
	struct fleet_task t;
	struct err e = ERR_INIT;

	for (uint64_t attempt = 1; attempt <= 6; attempt++) {
		buf_reset(&bus.record);
		buf_str(&bus.record, "{\"v\":1,\"state\":\"cancelled\",\"attempt\":1,\"claim\":\"other\"}");
		bus.record_revision++;
		queue_again("", attempt - 1);
		ck_assert_int_eq(fleet_task_parse(bus.text.data, bus.text.len, &t, &e), 0);
		ck_assert_int_eq(fleet_request_make(seed, "retry", "t1", "{\"attempts\":5}", &t.retry, &e), 0);
		buf_reset(&bus.text);
		fleet_task_write(&t, &bus.text);
		fleet_task_done(&t);
		run_until(now + 1000);
		ck_assert_int_eq(local.started, attempt == 5);
		if (local.started)
			end_local("failed");
	}
}
END_TEST

START_TEST(a_large_document_is_not_claimed)
{
	struct fleet_task t;
	struct err e = ERR_INIT;
	mem_auto char *padding = mem_alloc(490000);

	memset(padding, 'x', 489999);
	padding[489999] = '\0';
	put_task("", FLEET_QUEUED, "", "");
	ck_assert_int_eq(fleet_task_parse(bus.text.data, bus.text.len, &t, &e), 0);
	t.attempts = json_pack("[s]", padding);
	buf_reset(&bus.text);
	fleet_task_write(&t, &bus.text);
	fleet_task_done(&t);
	run_until(2000);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "failed");
}
END_TEST

START_TEST(a_lost_attempt_is_not_repeated_without_signed_permission)
{
	buf_str(&bus.record, "{\"v\":1,\"state\":\"running\",\"attempt\":1,\"claim\":\"other\"}");
	bus.record_revision = 1;
	queue_again(",\"retries\":3", 1);
	run_until(1000 + 2 * LEASE);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "lost");
}
END_TEST

START_TEST(an_invalid_record_permits_no_start)
{
	buf_str(&bus.record, "{\"v\":1,\"state\":\"begun\"}");
	bus.record_revision = 1;
	put_task("", FLEET_QUEUED, "", "");
	run_until(1000 + 2 * LEASE);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "lost");
}
END_TEST

START_TEST(without_the_record_nothing_starts)
{
	put_task("", FLEET_QUEUED, "", "");
	bus.record_down = true;
	run_until(5000);
	ck_assert(!local.known);
	bus.record_down = false;
	run_until(7000);
	ck_assert(local.started);
}
END_TEST

START_TEST(an_attempt_that_did_not_start_can_start_later)
{
	put_task("", FLEET_QUEUED, "", "");
	bus.refuses = true;
	run_until(2000);
	ck_assert(!local.started);
	ck_assert_str_eq(state_of_task(), "queued");
	bus.refuses = false;
	bus.queued = true;
	memset(&local, 0, sizeof(local));
	run_until(4000);
	ck_assert(local.started);
}
END_TEST

START_TEST(a_task_submitted_in_the_future_is_put_back)
{
	submitted_at = now + 2 * 86400000u;
	put_task("", FLEET_QUEUED, "", "");
	run_until(2000);
	ck_assert(!local.known);
	ck_assert_str_eq(state_of_task(), "queued");
	ck_assert_str_eq(bus.calls, "put_back");
}
END_TEST

/* It would take the tasks of others for expired. */
START_TEST(a_node_with_a_wrong_clock_takes_no_tasks)
{
	const int64_t wrong[] = { 8 * 86400000ll, -8 * 86400000ll };

	put_task("", FLEET_QUEUED, "", "");
	for (size_t i = 0; i < countof(wrong); i++) {
		bus.ahead = wrong[i];
		run_until(now + 20000);
		ck_assert_str_eq(state_of_task(), "queued");
		ck_assert_str_eq(bus.calls, "");
		json_auto_t *entry = json_loadb(bus.entry.data, bus.entry.len, 0, NULL);
		ck_assert_int_eq(json_integer_value(json_object_get(entry, "clockAheadMs")), wrong[i]);
	}
	bus.ahead = 60000;
	run_until(now + 10000);
	ck_assert_str_eq(state_of_task(), "running");
	ck_assert_ptr_null(memmem(bus.entry.data, bus.entry.len, "clockAheadMs", 12));
}
END_TEST

int main(void)
{
	const struct suite_case all = {
		"all", setup, teardown, 60,
		SUITE_TESTS(a_claim_is_durable_before_the_start, of_two_claims_one_wins,
			    without_a_reply_to_the_claim_nothing_starts,
			    a_claim_of_another_node_is_lost_after_its_whole_lease, a_renewed_claim_is_not_lost,
			    a_claim_with_the_same_name_by_another_daemon_keeps_its_lease,
			    a_task_that_another_node_took_is_ended_and_not_written,
			    a_change_by_a_client_does_not_end_a_claim, a_task_without_renewal_ends_within_the_lease,
			    only_one_daemon_can_use_a_name, a_wakeup_is_kept_until_tasks_can_be_fetched,
			    a_nearer_node_is_preferred, a_nearer_node_without_capacity_is_ignored,
			    a_completed_task_does_not_start_again, each_attempt_starts_once,
			    an_attempt_waits_for_the_lease_of_the_previous_one,
			    a_lost_attempt_is_not_repeated_without_signed_permission,
			    an_invalid_record_permits_no_start, without_the_record_nothing_starts,
			    an_attempt_that_did_not_start_can_start_later,
			    a_takeover_that_did_not_start_keeps_the_earlier_record, a_running_attempt_needs_its_record,
			    a_retry_request_starts_only_the_attempt_that_it_names, a_large_document_is_not_claimed,
			    a_task_submitted_in_the_future_is_put_back, a_node_with_a_wrong_clock_takes_no_tasks,
			    a_lease_is_renewed_while_many_documents_are_listed,
			    a_short_lease_is_renewed_while_many_documents_are_listed)
	};

	return suite_run_cases("fleet_node", &all, 1);
}
