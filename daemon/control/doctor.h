/* What this host allows: kernel, io_uring and each of its features, limits; and for each listener
 * and export of a configuration what it would get.  Every "no" says how to mend it. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct config;
struct server;

/* {"checks":[{"name","ok","value","reason","fix"}],"listeners":[{"name","engine",
 * "engine_features":[],"available","reason","fix"}],"exports":[{"name","store","path","size",
 * "features":[],"available","reason","fix"}]}; a new reference.  Opens no listening socket and
 * makes no file; starts and stops a worker per engine and set of options. */
json_t *doctor_check(const struct config *config);

/* The same for the running daemon's configuration. */
json_t *doctor_report(struct server *s);

/* The same as text, or as that JSON; 0 or -errno. */
int doctor_print(const struct config *config, bool as_json, FILE *to);
