/* The value syntax of the configuration file and of nbctl's options.  Pure: no state, no logging,
 * any thread.  See parse.h. */
#include "parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "util.h"

enum { UNIT_NAMES_MAX = 3 };

struct unit {
	uint64_t factor;
	const char *names[UNIT_NAMES_MAX]; /* suffixes; writers use the first */
};

/* From large to small: writers use the first that divides the value. */
static const struct unit size_units[] = {
	{ 1ULL << 40, { "T", "t", "TiB" } },
	{ 1ULL << 30, { "G", "g", "GiB" } },
	{ 1ULL << 20, { "M", "m", "MiB" } },
	{ 1ULL << 10, { "K", "k", "KiB" } },
	{ 1, { "" } },
};
static const struct unit duration_units[] = {
	{ 3600ULL * NS_PER_S, { "h" } }, { 60ULL * NS_PER_S, { "min", "m" } },
	{ NS_PER_S, { "s", "sec" } },    { NS_PER_MS, { "ms", "msec" } },
	{ NS_PER_US, { "us", "usec" } },
};

/* ---- Numbers ---- */

/* Reads digits at *text and moves *text behind them. */
static int parse_digits(const char **text, uint64_t *ret_value)
{
	const char *s = *text;
	uint64_t value = 0;

	if (*s < '0' || *s > '9' || (s[0] == '0' && s[1] >= '0' && s[1] <= '9'))
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*s - '0'), &value))
			return -ERANGE;
	*text = s;
	*ret_value = value;
	return 0;
}

int parse_uint(const char *text, uint64_t *ret_value)
{
	uint64_t value;
	int err = parse_digits(&text, &value);

	if (err)
		return err;
	if (*text)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static bool unit_is_called(const struct unit *unit, const char *name)
{
	for (unsigned i = 0; i < UNIT_NAMES_MAX && unit->names[i]; i++)
		if (!strcmp(unit->names[i], name))
			return true;
	return false;
}

static int parse_scaled(const char *text, const struct unit *units, size_t count,
			uint64_t *ret_value)
{
	uint64_t value;
	int err = parse_digits(&text, &value);

	if (err)
		return err;
	for (size_t i = 0; i < count; i++) {
		if (!unit_is_called(&units[i], text))
			continue;
		if (__builtin_mul_overflow(value, units[i].factor, &value))
			return -ERANGE;
		*ret_value = value;
		return 0;
	}
	return -EINVAL;
}

int parse_size(const char *text, uint64_t *ret_bytes)
{
	return parse_scaled(text, size_units, ARRAY_SIZE(size_units), ret_bytes);
}

int parse_duration(const char *text, uint64_t *ret_ns)
{
	if (!strcmp(text, "0")) {
		*ret_ns = 0;
		return 0;
	}
	return parse_scaled(text, duration_units, ARRAY_SIZE(duration_units), ret_ns);
}

int parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[][2] = { { "no", "yes" },
						{ "false", "true" },
						{ "off", "on" } };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		for (size_t j = 0; j < 2; j++)
			if (!strcmp(text, words[i][j])) {
				*ret_value = j;
				return 0;
			}
	return -EINVAL;
}

/* Reads `3` or `3-5` at *text and moves *text behind it. */
static int parse_range(const char **text, uint64_t *ret_first, uint64_t *ret_last)
{
	int err = parse_digits(text, ret_first);

	*ret_last = *ret_first;
	if (!err && **text == '-') {
		++*text;
		err = parse_digits(text, ret_last);
	}
	return !err && *ret_first > *ret_last ? -EINVAL : err;
}

int parse_cpus(const char *text, cpu_set_t *ret_cpus)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (;;) {
		uint64_t first = 0, last;
		int err = parse_range(&text, &first, &last);

		if (err)
			return err;
		if (last >= CPU_SETSIZE)
			return -ERANGE;
		for (uint64_t cpu = first; cpu <= last; cpu++)
			CPU_SET((size_t)cpu, &cpus);
		if (*text == '\0')
			break;
		if (*text++ != ',')
			return -EINVAL;
	}
	*ret_cpus = cpus;
	return 0;
}

/* ---- Addresses ---- */

static int parse_ports(const char *text, uint16_t *ret_first, uint16_t *ret_last)
{
	bool is_range = strchr(text, '-') != NULL;
	uint64_t first = 0, last;
	int err = parse_range(&text, &first, &last);

	if (err)
		return err;
	if (*text || (first == 0 && is_range))
		return -EINVAL;
	if (last > UINT16_MAX)
		return -ERANGE;
	*ret_first = (uint16_t)first;
	*ret_last = (uint16_t)last;
	return 0;
}

/* Copies text[0..bytes) as a string; false when it does not fit. */
static bool copy_text(char *to, size_t to_size, const char *text, size_t bytes)
{
	if (bytes >= to_size)
		return false;
	memcpy(to, text, bytes);
	to[bytes] = '\0';
	return true;
}

/* True: the path has no empty component, `.` or `..`, which would allow several spellings, and does
 * not end with a slash. */
static bool path_is_plain(const char *path)
{
	for (; *path; path += strcspn(path + 1, "/") + 1) {
		size_t length = strcspn(path + 1, "/");

		if (length <= 2 && !strncmp(path + 1, "..", length))
			return false;
	}
	return true;
}

/* Parses the path behind `unix:`. */
static int parse_unix(const char *name, struct address *ret_address)
{
	struct address address = { .sa.ss_family = AF_UNIX };
	struct sockaddr_un *un = (struct sockaddr_un *)&address.sa;
	bool abstract = name[0] == '@';

	for (const char *s = name; *s; s++)
		if (*s <= ' ' || *s > '~')
			return -EINVAL;
	if (abstract ? !name[1] : name[0] != '/' || !path_is_plain(name))
		return -EINVAL;
	if (!copy_text(un->sun_path, sizeof(un->sun_path), name, strlen(name)))
		return -ERANGE;
	if (abstract)
		un->sun_path[0] = '\0';
	*ret_address = address;
	return 0;
}

/* Parses the address in brackets, `fe80::1%eth0`.  The zone (RFC 4007, 11.2) is a number or the
 * name of an interface; a link-local address has one, and no other address. */
static int parse_ipv6(const char *text, size_t bytes, struct sockaddr_in6 *ret)
{
	char host[INET6_ADDRSTRLEN + IF_NAMESIZE], *zone;
	uint64_t index = 0;

	if (!copy_text(host, sizeof(host), text, bytes))
		return -EINVAL;
	zone = strchr(host, '%');
	if (zone)
		*zone++ = '\0';
	if (inet_pton(AF_INET6, host, &ret->sin6_addr) != 1 ||
	    IN6_IS_ADDR_LINKLOCAL(&ret->sin6_addr) != !!zone)
		return -EINVAL;
	if (zone && parse_uint(zone, &index) < 0)
		index = if_nametoindex(zone);
	if (zone && (index == 0 || index > UINT32_MAX))
		return -EINVAL;
	ret->sin6_family = AF_INET6;
	ret->sin6_scope_id = (uint32_t)index;
	return 0;
}

static int parse_ipv4(const char *text, size_t bytes, struct sockaddr_in *ret)
{
	char host[INET_ADDRSTRLEN];

	if (!copy_text(host, sizeof(host), text, bytes))
		return -EINVAL;
	ret->sin_family = AF_INET;
	return inet_pton(AF_INET, !strcmp(host, "localhost") ? "127.0.0.1" : host,
			 &ret->sin_addr) == 1
		       ? 0
		       : -EINVAL;
}

int parse_address(const char *text, struct address *ret_address)
{
	struct address address = { 0 };
	bool bracket = text[0] == '[';
	const char *end = strchr(text, bracket ? ']' : ':');
	int err;

	if (!strncmp(text, "unix:", strlen("unix:")))
		return parse_unix(text + strlen("unix:"), ret_address);
	text += bracket;
	if (!end)
		return -EINVAL;
	err = bracket ? parse_ipv6(text, (size_t)(end - text), (void *)&address.sa)
		      : parse_ipv4(text, (size_t)(end - text), (void *)&address.sa);
	if (err)
		return err;
	end += bracket;
	if (*end != ':')
		return -EINVAL;
	err = parse_ports(end + 1, &address.port_first, &address.port_last);
	if (err)
		return err;
	*ret_address = address;
	return 0;
}

/* Adds the zone of a link-local address: the name of its interface, or the number if it has gone.
 */
static void add_zone(const struct sockaddr_in6 *in6, char *host)
{
	char name[IF_NAMESIZE];

	if (!IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) || !in6->sin6_scope_id)
		return;
	host += strlen(host);
	if (if_indextoname(in6->sin6_scope_id, name))
		sprintf(host, "%%%s", name);
	else
		sprintf(host, "%%%u", in6->sin6_scope_id);
}

char *format_sockaddr(const struct sockaddr_storage *sa, char text[static ADDRESS_TEXT_MAX])
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	const struct sockaddr_un *un = (const struct sockaddr_un *)sa;
	bool abstract = !un->sun_path[0] && un->sun_path[1];
	char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];

	if (sa->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(text, ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
	} else if (sa->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		add_zone(in6, host);
		snprintf(text, ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
	} else if (sa->ss_family == AF_UNIX) {
		snprintf(text, ADDRESS_TEXT_MAX, "unix:%s%.*s", abstract ? "@" : "",
			 (int)sizeof(un->sun_path) - abstract, un->sun_path + abstract);
	} else {
		snprintf(text, ADDRESS_TEXT_MAX, "unknown");
	}
	return text;
}

char *format_address(const struct address *address, char text[static ADDRESS_TEXT_MAX])
{
	size_t length;

	format_sockaddr(&address->sa, text);
	if (address->sa.ss_family == AF_UNIX)
		return text;
	length = (size_t)(strrchr(text, ':') - text);
	length += (size_t)snprintf(text + length, ADDRESS_TEXT_MAX - length, ":%u",
				   address->port_first);
	if (address->port_last != address->port_first)
		snprintf(text + length, ADDRESS_TEXT_MAX - length, "-%u", address->port_last);
	return text;
}

/* ---- Writers ---- */

static char *format_scaled(uint64_t value, const struct unit *units, size_t count,
			   char text[static NUMBER_TEXT_MAX])
{
	size_t i = 0;

	while (i < count - 1 && (value == 0 || value % units[i].factor != 0))
		i++;
	snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64 "%s", value / units[i].factor,
		 value ? units[i].names[0] : "");
	return text;
}

char *format_size(uint64_t bytes, char text[static NUMBER_TEXT_MAX])
{
	return format_scaled(bytes, size_units, ARRAY_SIZE(size_units), text);
}

char *format_duration(uint64_t ns, char text[static NUMBER_TEXT_MAX])
{
	return format_scaled(ns, duration_units, ARRAY_SIZE(duration_units), text);
}

char *format_cpus(const cpu_set_t *cpus, char *text, size_t text_size)
{
	size_t length = 0;

	text[0] = '\0';
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		unsigned first = cpu;
		char range[NUMBER_TEXT_MAX];
		int bytes;

		if (!CPU_ISSET(cpu, cpus))
			continue;
		while (cpu + 1 < CPU_SETSIZE && CPU_ISSET(cpu + 1, cpus))
			cpu++;
		bytes = snprintf(range, sizeof(range), first == cpu ? "%s%u" : "%s%u-%u",
				 length ? "," : "", first, cpu);
		if (length + (size_t)bytes >= text_size)
			break;
		memcpy(text + length, range, (size_t)bytes + 1);
		length += (size_t)bytes;
	}
	return text;
}
