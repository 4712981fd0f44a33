#ifndef BAILIFF_CONTROL_METHODS_H
#define BAILIFF_CONTROL_METHODS_H

/* The handlers, declared from the table. */

#include "supervisor/control/method_params.h"

struct call;

#define MEMBERS(name)
#define METHOD(name, role, kind, summary) void method_##name(struct call *c, const struct name##_params *p);
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END

#endif
