/* Opening, trying and closing the store of one export, on a thread: see errand.h.  Main thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct export_config;
struct server_export;

/* Time enough for a disk to spin up. */
#define EXPORT_OPEN_NS ((uint64_t)10 * NS_PER_S)

/* Begins to open x, whose config, server and name are set.  Then: waits for that until end_ns
 * (CLOCK_MONOTONIC) and sets x->error (0 or -errno) with x->reason and x->export.  Several are to
 * be begun before any is waited for. */
void export_open_begin(struct server_export *x);
void export_open_end(struct server_export *x, uint64_t end_ns);

/* Waits for that, but not for long. */
void export_close(struct server_export *x);

/* Gives the locks on all files up, while connections still finish: as in a reload, who follows may
 * have them. */
void exports_unlock(void);

/* Tries config: fills x as if it were open, but makes and changes nothing.  Two steps as above;
 * then *ret_new: its file would be made.  0, or -errno with x->reason. */
void export_probe_begin(const struct export_config *config, struct server_export *x);
int export_probe_end(struct server_export *x, uint64_t end_ns, bool *ret_new);
