#include "runtime/evidence/evidence.h"

static const struct {
	const char *name, *member;
} kinds[] = {
#define EVIDENCE_KIND(KIND, name, member, write, sealed) { name, member },
#include "runtime/evidence/evidence_kinds.def"
#undef EVIDENCE_KIND
};

const char *evidence_kind_name(enum evidence_kind k) { return kinds[k].name; }

const char *evidence_kind_member(enum evidence_kind k) { return kinds[k].member; }
