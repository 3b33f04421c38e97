/* See generator_result.h. */
#include "generator_result.h"

#include <math.h>
#include <stddef.h>

#include "field.h"
#include "util.h"

bool generator_quantile(const struct generator_result *result, double quantile, uint64_t *ret_ns)
{
	for (unsigned i = 0; i < result->quantile_count; i++)
		if (fabs(result->quantiles[i].quantile - quantile) < 1e-9) {
			*ret_ns = result->quantiles[i].ns;
			return true;
		}
	return false;
}

/* ---- In saved rows ---- */

static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{ "requests", offsetof(struct generator_result, requests) },
	{ "requests_per_s", offsetof(struct generator_result, requests_per_s) },
	{ "bytes", offsetof(struct generator_result, bytes) },
	{ "bytes_per_s", offsetof(struct generator_result, bytes_per_s) },
	{ "errors", offsetof(struct generator_result, errors) },
};

void generator_result_to_json(const struct generator_result *r, json_t *to)
{
	json_t *quantiles = json_array();

	for (unsigned i = 0; i < ARRAY_SIZE(numbers); i++)
		json_object_set_new(to, numbers[i].name,
				    json_real(*(const double *)(const void *)((const char *)r +
									      numbers[i].offset)));
	for (unsigned i = 0; i < r->quantile_count; i++)
		json_array_append_new(quantiles, json_pack("[f, I]", r->quantiles[i].quantile,
							   (json_int_t)r->quantiles[i].ns));
	json_object_set_new(to, "latency_ns", quantiles);
}

void generator_result_from_json(struct generator_result *r, const json_t *from)
{
	json_t *pair;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(numbers); i++)
		*(double *)(void *)((char *)r + numbers[i].offset) =
			json_number_value(field_get(from, numbers[i].name));
	json_array_foreach(field_get(from, "latency_ns"), i, pair)
		if (r->quantile_count < GENERATOR_QUANTILES_MAX)
			r->quantiles[r->quantile_count++] = (struct generator_quantile){
				json_number_value(json_array_get(pair, 0)),
				field_uint(json_array_get(pair, 1), ""),
			};
}
