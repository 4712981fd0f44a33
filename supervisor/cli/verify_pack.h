#ifndef BAILIFF_CLI_VERIFY_PACK_H
#define BAILIFF_CLI_VERIFY_PACK_H

/* replay --verify: verifies the evidence pack in this file and prints the result. Returns the exit status. */
int verify_pack(const char *path, const char *key); /* key: a public key that must have signed it, or NULL */

#endif
