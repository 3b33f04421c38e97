/* Requests and heads of answers.  See metrics_http.h. */
#include "metrics_http.h"

#include <stdio.h>
#include <string.h>

/* The length of the line at the beginning, without its end; `bytes` when it has none. */
static size_t line_bytes(const char *data, size_t bytes)
{
	const char *end = memchr(data, '\n', bytes);
	size_t length = end ? (size_t)(end - data) : bytes;

	return end && length > 0 && data[length - 1] == '\r' ? length - 1 : length;
}

static bool is(const char *text, size_t bytes, const char *what)
{
	return bytes == strlen(what) && !memcmp(text, what, bytes);
}

/* The beginning of the path in `http://HOST/path`, or in `/path`. */
static const char *path_of(const char *target, const char *end)
{
	static const char scheme[] = "http://";

	if ((size_t)(end - target) < strlen(scheme) || memcmp(target, scheme, strlen(scheme)))
		return target;
	target = memchr(target + strlen(scheme), '/', (size_t)(end - target) - strlen(scheme));
	return target ? target : end;
}

static enum metrics_request parse_line(const char *line, size_t bytes)
{
	const char *end = line + bytes, *target, *version, *path, *query;
	bool get, head;

	target = memchr(line, ' ', bytes);
	version = target ? memchr(target + 1, ' ', (size_t)(end - target - 1)) : NULL;
	if (!version || target == line || version == target + 1)
		return METRICS_BAD;
	if (!is(version, (size_t)(end - version), " HTTP/1.1") &&
	    !is(version, (size_t)(end - version), " HTTP/1.0"))
		return METRICS_BAD;
	get = is(line, (size_t)(target - line), "GET");
	head = is(line, (size_t)(target - line), "HEAD");
	path = path_of(target + 1, version);
	query = memchr(path, '?', (size_t)(version - path));
	if (!get && !head)
		return METRICS_METHOD;
	if (!is(path, (size_t)((query ? query : version) - path), "/metrics"))
		return METRICS_ELSEWHERE;
	return get ? METRICS_GET : METRICS_HEAD;
}

enum metrics_request metrics_parse(const char *data, size_t bytes)
{
	if (bytes > METRICS_REQUEST_MAX)
		return METRICS_BAD;
	/* An empty line ends the head. */
	if (!memmem(data, bytes, "\n\r\n", 3) && !memmem(data, bytes, "\n\n", 2))
		return bytes == METRICS_REQUEST_MAX ? METRICS_BAD : METRICS_MORE;
	return parse_line(data, line_bytes(data, bytes));
}

size_t metrics_head(char *head, size_t room, const char *status, size_t body_bytes)
{
	int bytes = snprintf(head, room,
			     "HTTP/1.1 %s\r\n"
			     "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
			     "Content-Length: %zu\r\n"
			     "%sConnection: close\r\n\r\n",
			     status, body_bytes,
			     !strncmp(status, "405", 3) ? "Allow: GET, HEAD\r\n" : "");

	return bytes > 0 && (size_t)bytes < room ? (size_t)bytes : 0;
}
