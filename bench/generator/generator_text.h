/* Shared by the parsers of load generators' output: numbers in text, units, options of the
 * command line.  Pure. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "generator.h"

/* Parses the number at the beginning of text; only finite, non-negative ones are accepted.
 * *ret_end (ret_end may be NULL): after the number. */
bool number_at(const char *text, double *ret_value, const char **ret_end);

/* The number after the first `key` in text. */
bool number_after(const char *text, const char *key, double *ret_value, const char **ret_end);

/* The number that ends right before `key`: `4096 requests`. */
bool number_before(const char *text, const char *key, double *ret_value);

/* Scales of units by their first letters; the longest that fits comes first, NULL is the end. */
struct unit {
	const char *text;
	double scale;
};
extern const struct unit time_units[], byte_units[];

/* Multiplies *value by the unit that text begins with; false: none of them. */
bool unit_at(const char *text, const struct unit *units, double *value);

/* The number after the first `key`, scaled by its unit. */
bool measure_after(const char *text, const char *key, const struct unit *units, double *ret_value);

/* Adds a percentile.  Ignores one that does not ascend, an invalid one, and a time of 0, which was
 * too short for the generator's clock. */
void add_quantile(struct generator_result *r, double quantile, double ns);

/* The last line that begins with `start`; NULL: none. */
const char *last_line(const char *text, const char *start);

/* The number of `-n 1000`, `-n1000` or `--name=1000`; of several the last, as the programs whose
 * options are read take it; `otherwise` without any. */
double option_number(char *const *argv, const char *option, double otherwise);

/* The first JSON object that begins a line: warnings may stand before it.  A new
 * reference, or NULL. */
json_t *json_document(const char *text);

/* 0 when missing, or not a positive number. */
double json_number(const json_t *object, const char *path);

/* The parsers: fills in r, zeroed before, from the generator's output; false: no
 * result was recognised. */
typedef bool generator_parser(char *const *argv, const char *text, struct generator_result *r);
extern generator_parser parse_redis;                       /* generator_redis.c */
extern generator_parser parse_iperf3, parse_sockperf;      /* generator_stream.c */
extern generator_parser parse_netperf;                     /* generator_stream.c */
extern generator_parser parse_wrk, parse_h2load, parse_ab; /* generator_http.c */
extern generator_parser parse_fio, parse_qemu_img;         /* generator_storage.c */
