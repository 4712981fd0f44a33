#ifndef BAILIFF_STORE_DAMAGE_H
#define BAILIFF_STORE_DAMAGE_H

/*
 * Damage that reads find (internal to runtime/store): records, documents and chunks of output that do not match their
 * checksums. Each finding is passed once to the function given to store_on_damage, by its message.
 */

struct err;
struct store;

/* Any thread. Returns r, the result of a read; if it failed because of damage, that is a finding. */
int damage_note(struct store *store, int r, const struct err *e);
/* Loop thread: the damage may have been repaired; what is found again is passed on again. */
void damage_forget(struct store *store);

#endif
