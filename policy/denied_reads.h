#ifndef BAILIFF_POLICY_DENIED_READS_H
#define BAILIFF_POLICY_DENIED_READS_H

/*
 * The paths that rules deny to read, as far as they can be hidden from a command: those that a rule names without a
 * wildcard. A rule about everything in a folder hides the folder, Read(.env) the file in the workspace and in the
 * working directory.
 */

#include "policy/rules.h"

struct buf;

#define DENIED_READS_MAX 64u

/*
 * Appends at most DENIED_READS_MAX clean paths below the workspace, each terminated by NUL. `s` may be NULL. False:
 * there are more.
 */
bool policy_denied_reads(const struct policy_rules *s, const struct rule_base_paths *bases, struct buf *ret);

#endif
