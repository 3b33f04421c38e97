/* Objects of a document from the rows of the schema (base/statistics.h), and the
 * listeners that it is about. */
#include <string.h>

#include "document_internal.h"

static json_t *buckets_to_json(const struct histogram_sum *h)
{
	json_t *buckets = json_array();

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (h->buckets[i])
			json_array_append_new(
				buckets, json_pack("[o, o]", json_count(histogram_bucket_max(i)),
						   json_count(h->buckets[i])));
	}
	return buckets;
}

/* NULL: the field is absent, or set by the code that makes the document. */
static json_t *value_of(const struct statistic *row, const void *numbers)
{
	const void *value = (const char *)numbers + row->offset;

	switch (row->type) {
	case STATISTIC_COUNTER:
	case STATISTIC_GAUGE:
		return json_count(*(const uint64_t *)value);
	case STATISTIC_QUANTILE:
		return json_count(histogram_quantile(numbers, row->quantile));
	case STATISTIC_BUCKETS:
		return buckets_to_json(numbers);
	case STATISTIC_LATENCY:
		return document_fields(json_object(), row->each, value);
	case STATISTIC_MAP:
		return *(json_t *const *)value;
	case STATISTIC_OPTIONAL:
		if (!*(const uint64_t *)value)
			return NULL;
		/* fall through */
	case STATISTIC_OBJECT:
		return document_fields(json_object(), row + 1, numbers);
	default:
		return NULL;
	}
}

json_t *document_fields(json_t *object, const struct statistic *row, const void *numbers)
{
	for (; row->type != STATISTIC_END; row = statistic_next(row)) {
		json_t *value = value_of(row, numbers);

		if (value)
			json_object_set_new(object, row->name, value);
	}
	return object;
}

bool document_is_wanted(const json_t *names, const char *name)
{
	size_t wanted = json_array_size(names);

	for (size_t i = 0; i < wanted; i++) {
		if (strcmp(json_string_value(json_array_get(names, i)), name) == 0)
			return true;
	}
	return wanted == 0;
}
