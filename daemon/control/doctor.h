/* Checks this host: kernel, io_uring and its features, limits; and the engine and features that
 * each listener and export of a configuration would get.  Each failed check has a fix. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct config;

/* {"passed","checks":[{"name","ok","optional","value","reason","fix"}],"listeners":[{"name","engine",
 * "engine_features":[],"optional","available","reason","fix"}],"exports":[{"name","store","path",
 * "size","features":[],"optional","available","reason","fix"}]}; a new reference.  Opens no
 * listening socket and makes no file; starts and stops a worker per engine and set of options.  Any
 * thread; may take seconds. *stop (may be NULL): set by another thread, the report is no longer
 * wanted. */
json_t *doctor_check(const struct config *config, const _Atomic bool *stop);

/* True: each listener that is not optional, and each export, is available. */
bool doctor_passed(const json_t *report);

/* The report as text, for people. */
void doctor_print(const json_t *report, FILE *to);
