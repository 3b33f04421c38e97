/* The value syntax of the configuration file and of nbctl's options.
 *
 * Every function is pure: text in, value out, no logging; but the kernel is asked for the
 * interfaces that addresses name.  They return 0, or -EINVAL / -ERANGE and leave *ret_value
 * untouched.  Leading or trailing text, negative numbers, overflow and an empty string are errors.
 */
#pragma once
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Decimal number.  Leading zeros are an error, as some read `010` as eight. */
int parse_uint(const char *text, uint64_t *ret_value);

/* Bytes: a number with an optional K, k or KiB, and so on with M, G and T (1024^n).  KB and MB are
 * errors, as some read them as powers of ten. */
int parse_size(const char *text, uint64_t *ret_bytes);

/* Nanoseconds: a number with us, ms, s (usec, msec, sec), min, m or h; a bare 0 is allowed, any
 * other bare number is ambiguous and an error. */
int parse_duration(const char *text, uint64_t *ret_ns);

/* `yes`, `true` or `on`; `no`, `false` or `off`. */
int parse_bool(const char *text, bool *ret_value);

/* CPU list as the kernel writes it: `0-3,6`. */
int parse_cpus(const char *text, cpu_set_t *ret_cpus);

/* IPv4 or [IPv6] with a port or an inclusive range of ports, or a Unix socket. */
struct address {
	struct sockaddr_storage sa;     /* port 0 in here */
	uint16_t port_first, port_last; /* both 0 for a Unix socket */
};

/* `127.0.0.1:7008`, `[::1]:7008`, `[fe80::1%eth0]:7008`, `0.0.0.0:7008-7011`; port 0 lets the
 * kernel choose (no range).  `localhost` is 127.0.0.1; no other host name is accepted, as a lookup
 * could block. `unix:/PATH`, absolute, in ASCII without white space; `unix:@NAME`, abstract:
 * unix(7); up to 107 bytes behind the colon, and a path has no `.`, `..` or empty component, so
 * that a socket has only one spelling. */
int parse_address(const char *text, struct address *ret_address);

enum { ADDRESS_TEXT_MAX = 128 };
/* Writes `127.0.0.1:7008`, `[::1]:7008`, `unix:/PATH`, `unix:@NAME` or `unix:` (no name), at most
 * ADDRESS_TEXT_MAX bytes with the NUL; returns text. */
char *format_sockaddr(const struct sockaddr_storage *sa, char text[static ADDRESS_TEXT_MAX]);
/* format_sockaddr() with the range of ports. */
char *format_address(const struct address *address, char text[static ADDRESS_TEXT_MAX]);

/* Writers that parse back to the same value: "16K", "30s" (whole microseconds).  Return text. */
enum { NUMBER_TEXT_MAX = 32 };
char *format_size(uint64_t bytes, char text[static NUMBER_TEXT_MAX]);
char *format_duration(uint64_t ns, char text[static NUMBER_TEXT_MAX]);
/* Cut after the last range that fits in text_size bytes with the NUL; "" when cpus is empty. */
char *format_cpus(const cpu_set_t *cpus, char *text, size_t text_size);
