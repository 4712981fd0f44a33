#include "runtime/view/projections.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

typedef int (*fold_fn)(struct models *m, const struct event_view *ev, struct err *e);

static const struct {
	enum event_type type;
	fold_fn fold;
	bool ahead;
} folds[] = {
#define PROJECT(type, function) { EVENT_##type, function, true },
#define PROJECT_COMMITTED(type, function) { EVENT_##type, function, false },
#include "runtime/view/projections.def"
#undef PROJECT
#undef PROJECT_COMMITTED
};

int view_project(struct models *m, const struct event_view *ev, struct err *e)
{
	for (size_t i = 0; i < countof(folds); i++)
		if (folds[i].type == ev->type && folds[i].fold(m, ev, e) < 0)
			return err_wrap(e, "fold %s", event_info(ev->type)->name);
	return 0;
}

int view_project_speculative(struct models *m, const struct event_view *ev, struct err *e)
{
	for (size_t i = 0; i < countof(folds); i++)
		if (folds[i].ahead && folds[i].type == ev->type && folds[i].fold(m, ev, e) < 0)
			return err_wrap(e, "fold %s ahead", event_info(ev->type)->name);
	return 0;
}
