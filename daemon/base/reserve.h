/* Spare descriptors for the main thread, so that the control socket and /proc still work
 * when the data plane has used up all others.  Global state, like the table of descriptors
 * itself.  Main thread only. */
#pragma once
#include <stdbool.h>

/* Opens up to `count` spare descriptors. */
void reserve_open(unsigned count);
void reserve_close(void);

/* To be called when opening or accepting failed with `error`: for EMFILE and ENFILE closes a spare.
 * True: try again. */
bool reserve_use(int error);

/* To be called after a descriptor was closed: reopens missing spares. */
void reserve_refill(void);
