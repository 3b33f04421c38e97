/* Values of JSON documents that jansson leaves to its caller. */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* A counter: Varlink's integers are signed, so it stops at their end. */
static inline json_t *json_count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Text that came from elsewhere and may not be UTF-8, which JSON is. */
static inline json_t *json_text(const char *string)
{
	json_t *json = json_string(string);

	return json ? json : json_string("(not UTF-8)");
}

/* Now: RFC 3339, UTC, with milliseconds. */
json_t *json_time(void);
