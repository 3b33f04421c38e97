/* The part of HTTP/1.x that scrapers of `nbctl metrics` need.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { METRICS_REQUEST_MAX = 16384 }; /* bytes of a request's head */

enum metrics_request {
	METRICS_MORE, /* the head is not complete */
	METRICS_GET,
	METRICS_HEAD,
	METRICS_ELSEWHERE, /* GET or HEAD of a path other than /metrics */
	METRICS_METHOD,    /* another method */
	METRICS_BAD,       /* not HTTP/1.x, or a head that is too long */
};

/* Parses the bytes received so far (RFC 9112, section 3); header fields are ignored. */
enum metrics_request metrics_parse(const char *data, size_t bytes);

/* Writes the head of an answer with this status (`200 OK`) and a plain-text body of body_bytes to
 * `head`.  Returns its bytes, 0: it does not fit. */
size_t metrics_head(char *head, size_t room, const char *status, size_t body_bytes);
