/* Spare descriptors for the main thread, so that a data plane that has used up all of them can
 * still be looked at: the control socket and /proc.  The table of descriptors is the process's, and
 * so is this state.  Main thread only. */
#pragma once
#include <stdbool.h>

/* Opens up to `count` spares. */
void reserve_open(unsigned count);
void reserve_close(void);

/* An open or accept failed with EMFILE or ENFILE: gives one spare up.  true: try again. */
bool reserve_use(int error);

/* A descriptor was closed: opens what is missing again. */
void reserve_refill(void);
