#ifndef BAILIFF_CLI_VERIFY_PACK_H
#define BAILIFF_CLI_VERIFY_PACK_H

/* replay --verify: says whether the pack in this file is what it says; the exit status. */
int verify_pack(const char *path, const char *key); /* key: a public one that must have signed it, or NULL */

#endif
