/* As much of HTTP/1.x as a scraper of `nbctl metrics` needs.  Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { METRICS_REQUEST_MAX = 16384 }; /* bytes of a request's head */

enum metrics_request {
	METRICS_MORE, /* the head is not complete */
	METRICS_GET,
	METRICS_HEAD,
	METRICS_ELSEWHERE, /* GET or HEAD of something else than /metrics */
	METRICS_METHOD,    /* a method that nothing here has */
	METRICS_BAD,       /* no HTTP/1.x, or a head that is too long */
};

/* The request in the bytes received so far.  RFC 9112, section 3; the fields below the request line
 * are of no interest. */
enum metrics_request metrics_parse(const char *data, size_t bytes);

/* Writes the head of an answer with the status (`200 OK`) and a body of so many bytes of plain text
 * to `head`; its bytes, 0 when it does not fit. */
size_t metrics_head(char *head, size_t room, const char *status, size_t body_bytes);
