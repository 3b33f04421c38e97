/* The JSON documents of the control socket, whose fields nbserved-control(7) describes.  Main
 * thread; workers' counters are read with relaxed loads, without stopping the workers.
 *
 * All functions return a new reference, or NULL: no memory. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct conn_info;
struct server;

/* GetStats, of the listeners in names (an array of strings; NULL or empty: all); by_worker: an
 * element for each worker of them. */
json_t *document_stats(struct server *s, const json_t *names, bool by_worker);

/* GetStatus. */
json_t *document_status(struct server *s);

/* Names of the features in use (bits of enum engine_feature), and `-NAME` of those in `off`. */
json_t *document_features(uint64_t mask, uint64_t off);

/* One connection, for ListConnections; worker: its index. */
json_t *document_connection(const char *listener, unsigned worker, const struct conn_info *info);
