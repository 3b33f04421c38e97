/* See host_list.h. */
#include "host_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "util.h"

enum { DIGITS_MAX = 9 }; /* of a number in brackets */

static bool has(const struct host_list *hosts, const char *name)
{
	for (unsigned i = 0; i < hosts->count; i++)
		if (!strcmp(hosts->names[i], name))
			return true;
	return false;
}

/* Adds a name, and takes ownership of it. */
static int add(struct host_list *hosts, char *name, struct reason *reason)
{
	const char *bad = NULL;

	if (!*name || *name == '-' || strlen(name) >= HOST_NAME_BYTES)
		bad = "expected [USER@]HOST,..., with c[1-3] for c1,c2,c3";
	for (const char *c = name; *c && !bad; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || *c == '[' || *c == ']')
			bad = "a name has no space, and one [...] at most";
	if (!bad && has(hosts, name))
		bad = "it is there twice";
	if (!bad && hosts->count == HOST_LIST_MAX)
		bad = "there are too many hosts";
	if (!bad) {
		hosts->names[hosts->count++] = name;
		return 0;
	}
	reason_set(reason, -EINVAL, "%s, got '%.64s'", bad, name);
	free(name);
	return -EINVAL;
}

/* Reads digits up to `end`; false: there are none, too many, or other characters. */
static bool read_number(const char *text, const char *end, unsigned long *ret)
{
	size_t bytes = strspn(text, "0123456789");

	if (bytes == 0 || bytes > DIGITS_MAX || text + bytes != end)
		return false;
	*ret = strtoul(text, NULL, 10);
	return true;
}

/* Adds the hosts of a number or a range in brackets, from text to end.  All numbers of a range get
 * as many digits as its first one: 01-12. */
static int add_range(struct host_list *hosts, const char *before, int before_bytes,
		     const char *text, const char *end, const char *after, int after_bytes,
		     struct reason *reason)
{
	const char *dash = memchr(text, '-', (size_t)(end - text)), *first_end = dash ? dash : end;
	unsigned long first, last;
	int rc = 0;

	if (!read_number(text, first_end, &first))
		return reason_set(reason, -EINVAL, "expected numbers in [...], got '%.*s'",
				  (int)MIN(end - text, 64), text);
	last = first;
	if (dash && (!read_number(dash + 1, end, &last) || last < first))
		return reason_set(reason, -EINVAL, "expected a range such as 1-3, got '%.*s'",
				  (int)MIN(end - text, 64), text);
	for (unsigned long i = first; i <= last && rc == 0; i++)
		rc = add(hosts,
			 text_new("%.*s%0*lu%.*s", before_bytes, before, (int)(first_end - text), i,
				  after_bytes, after),
			 reason);
	return rc;
}

/* Adds one item of the list: a name, which may have one list in brackets. */
static int add_item(struct host_list *hosts, const char *text, const char *end,
		    struct reason *reason)
{
	const char *open = memchr(text, '[', (size_t)(end - text)), *close, *next;
	int rc = 0;

	if (!open)
		return add(hosts, text_new("%.*s", (int)(end - text), text), reason);
	close = memchr(open, ']', (size_t)(end - open));
	if (!close)
		return reason_set(reason, -EINVAL, "a [ without its ]: '%.*s'",
				  (int)MIN(end - text, 64), text);
	for (const char *at = open + 1; at <= close && rc == 0; at = next + 1) {
		next = memchr(at, ',', (size_t)(close - at));
		next = next ? next : close;
		rc = add_range(hosts, text, (int)(open - text), at, next, close + 1,
			       (int)(end - close - 1), reason);
	}
	return rc;
}

/* The comma that ends the item, or the end of the text. */
static const char *item_end(const char *text)
{
	bool inside = false;

	for (; *text && (inside || *text != ','); text++)
		inside = *text == '[' || (inside && *text != ']');
	return text;
}

int host_list_parse(const char *text, struct host_list *ret, struct reason *reason)
{
	const char *end;
	int rc;

	*ret = (struct host_list){ .count = 0 };
	do {
		end = item_end(text);
		rc = add_item(ret, text, end, reason);
		text = end + 1;
	} while (rc == 0 && *end);
	return rc;
}

void host_list_free(struct host_list *hosts)
{
	while (hosts->count)
		free(hosts->names[--hosts->count]);
}
