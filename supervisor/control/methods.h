#ifndef BAILIFF_CONTROL_METHODS_H
#define BAILIFF_CONTROL_METHODS_H

/* The handlers, declared from the table. */

struct call;

#define MEMBERS(name)
#define METHOD(name, role, kind, summary) void method_##name(struct call *c);
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
