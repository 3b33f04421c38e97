/* Constructors of JSON values in addition to jansson's.  The caller owns what they return. */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* A counter, at most INT64_MAX, as Varlink's integers are signed. */
static inline json_t *json_count(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Text of another origin, which may not be valid UTF-8 as JSON requires. */
static inline json_t *json_text(const char *string)
{
	json_t *json = json_string(string);

	return json ? json : json_string("(not UTF-8)");
}

/* The current time: RFC 3339, UTC, with milliseconds. */
json_t *json_time(void);
