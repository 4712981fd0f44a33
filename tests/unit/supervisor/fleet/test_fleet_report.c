#include "supervisor/fleet/fleet_report.h"

#include "runtime/base/mem.h"
#include "supervisor/fleet/fleet_node.h"
#include "tests/unit/suite.h"

START_TEST(long_lists_are_not_read_while_tasks_run)
{
	struct fleet_run slow = { .task.spec.lease_ms = 30000 }, quick = { .task.spec.lease_ms = 3000, .next = &slow };
	struct fleet_node node = { .runs = &slow };
	struct fleet_report r = { .read_at = 1000, .took_ms = 1000, .entries = 5000 };

	ck_assert(fleet_report_may_list(&r, &node, 2000));
	node.runs = &quick; /* renewed every second */
	ck_assert(!fleet_report_may_list(&r, &node, 2000));
	ck_assert(!fleet_report_may_list(&r, &node, 10000000)); /* it would take too long again */
	node.runs = &slow;
	r.entries++;
	ck_assert(!fleet_report_may_list(&r, &node, 2000));
	ck_assert(fleet_report_may_list(&r, &node, 10000000)); /* some may have been removed */
	node.runs = NULL;
	r.took_ms = 60000;
	ck_assert(fleet_report_may_list(&r, &node, 2000));
}
END_TEST

int main(void)
{
	const struct suite_case all = { "all", NULL, NULL, 60, SUITE_TESTS(long_lists_are_not_read_while_tasks_run) };

	return suite_run_cases("fleet_report", &all, 1);
}
