/* Opens, probes and closes the store of one export, on a thread of its own: see detached.h.  Main
 * thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct export_config;
struct server_export;

/* Time enough for a disk to spin up. */
#define EXPORT_OPEN_NS ((uint64_t)10 * NS_PER_S)

/* export_open_begin() starts to open x, whose config, server and name are set.  export_open_end()
 * waits until end_ns (CLOCK_MONOTONIC), and sets x->error (0 or -errno) with x->reason, and
 * x->export.  Callers begin all exports before they wait for the first. */
void export_open_begin(struct server_export *x);
void export_open_end(struct server_export *x, uint64_t end_ns);

/* Closes x; waits for a limited time. */
void export_close(struct server_export *x);

/* Releases the lock on the file of x, which stays open: no client can write to it any more. */
void export_unlock(struct server_export *x);

/* Probes config: fills in x as if it were open, but creates and changes nothing.  Two steps as
 * above.  *ret_new: opening would create the file.  0, or -errno with x->reason. */
void export_probe_begin(const struct export_config *config, struct server_export *x);
int export_probe_end(struct server_export *x, uint64_t end_ns, bool *ret_new);
