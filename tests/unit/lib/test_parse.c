/* base/parse.c: what each kind of value accepts, refuses and prints. */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/un.h>

#include "parse.h"
#include "unit.h"
#include "util.h"

/* A parser fails on each of the texts with err and leaves its result alone. */
#define assert_refused(parse, type, err, ...)                                                      \
	do {                                                                                       \
		static const char *const texts_[] = { __VA_ARGS__ };                               \
		for (size_t i_ = 0; i_ < ARRAY_SIZE(texts_); i_++) {                               \
			type value_, before_;                                                      \
			memset(&value_, 0xa5, sizeof(value_));                                     \
			before_ = value_;                                                          \
			if (parse(texts_[i_], &value_) != (err))                                   \
				fail_msg("'%s': not " #err, texts_[i_]);                           \
			assert_memory_equal(&value_, &before_, sizeof(value_));                    \
		}                                                                                  \
	} while (0)

static uint64_t number_of(int (*parse)(const char *, uint64_t *), const char *text)
{
	uint64_t value;

	assert_int_equal(parse(text, &value), 0);
	return value;
}

/* Suffixes of sizes are powers of 1024; units of times may be spelled as in systemd. */
TEST(numbers_are_exact)
{
	static const struct {
		int (*parse)(const char *, uint64_t *);
		const char *text;
		uint64_t value;
	} cases[] = {
		{ parse_uint, "0", 0 },
		{ parse_uint, "7008", 7008 },
		{ parse_uint, "18446744073709551615", UINT64_MAX },
		{ parse_size, "0", 0 },
		{ parse_size, "100", 100 },
		{ parse_size, "16K", 16384 },
		{ parse_size, "16k", 16384 },
		{ parse_size, "16KiB", 16384 },
		{ parse_size, "3M", 3 << 20 },
		{ parse_size, "3m", 3 << 20 },
		{ parse_size, "3MiB", 3 << 20 },
		{ parse_size, "2G", 2ULL << 30 },
		{ parse_size, "2g", 2ULL << 30 },
		{ parse_size, "2GiB", 2ULL << 30 },
		{ parse_size, "16777215T", 16777215ULL << 40 },
		{ parse_size, "1t", 1ULL << 40 },
		{ parse_size, "1TiB", 1ULL << 40 },
		{ parse_duration, "0", 0 },
		{ parse_duration, "0us", 0 },
		{ parse_duration, "50us", 50 * NS_PER_US },
		{ parse_duration, "50usec", 50 * NS_PER_US },
		{ parse_duration, "500ms", 500 * NS_PER_MS },
		{ parse_duration, "500msec", 500 * NS_PER_MS },
		{ parse_duration, "30s", 30ULL * NS_PER_S },
		{ parse_duration, "5sec", 5ULL * NS_PER_S },
		{ parse_duration, "5min", 300ULL * NS_PER_S },
		{ parse_duration, "5m", 300ULL * NS_PER_S },
		{ parse_duration, "24h", 86400ULL * NS_PER_S },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (number_of(cases[i].parse, cases[i].text) != cases[i].value)
			fail_msg("%s", cases[i].text);
}

/* KB and GB are powers of ten to some; a time without a unit is ambiguous. */
TEST(numbers_refuse_other_forms_and_overflow)
{
	assert_refused(parse_uint, uint64_t, -EINVAL, "", " 1", "1 ", "+1", "-1", "0x10", "1.0",
		       "1e3", "a", "1K", "010", "00", "\xef\xbc\x91");
	assert_refused(parse_uint, uint64_t, -ERANGE, "18446744073709551616",
		       "99999999999999999999", "184467440737095516150");
	assert_refused(parse_size, uint64_t, -EINVAL, "", "K", "KiB", "1KB", "1GB", "1kib", "1iB",
		       "1B", "1 K", "-1K", "1K ", "1KK", "1.5K", "1P");
	assert_refused(parse_size, uint64_t, -ERANGE, "16777216T", "18446744073709551615K",
		       "18446744073709551616");
	assert_refused(parse_duration, uint64_t, -EINVAL, "", "30", "1", "00", "s", "1M", "1 s",
		       "1S", "-1s", "1.5s", "1s ", "1d", "1ns", "5s30ms");
	assert_refused(parse_duration, uint64_t, -ERANGE, "18446744073709551615us", "5124096h");
}

TEST(bool_is_one_of_six_words)
{
	static const char *const words[][2] = { { "yes", "no" },
						{ "true", "false" },
						{ "on", "off" } };
	static const char *const others[] = { "", "y", "Yes", "TRUE", "1", "0", "no ", " no" };
	bool value;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		assert_int_equal(parse_bool(words[i][0], &value), 0);
		assert_true(value);
		assert_int_equal(parse_bool(words[i][1], &value), 0);
		assert_false(value);
	}
	value = true;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_equal(parse_bool(others[i], &value), -EINVAL);
	assert_true(value);
}

TEST(numbers_print_in_the_largest_unit_that_is_exact)
{
	char text[NUMBER_TEXT_MAX];

	assert_string_equal(format_size(0, text), "0");
	assert_string_equal(format_size(1023, text), "1023");
	assert_string_equal(format_size(16384, text), "16K");
	assert_string_equal(format_size((1 << 20) + 1024, text), "1025K");
	assert_string_equal(format_size(UINT64_MAX, text), "18446744073709551615");
	assert_string_equal(format_duration(0, text), "0");
	assert_string_equal(format_duration(90ULL * NS_PER_S, text), "90s");
	assert_string_equal(format_duration(3600ULL * NS_PER_S, text), "1h");
	assert_string_equal(format_duration(1500 * NS_PER_US, text), "1500us");
}

TEST(printed_numbers_read_back_the_same)
{
	char text[NUMBER_TEXT_MAX];

	for (uint64_t value = 1; value < UINT64_MAX / 7; value = value * 3 + value / 2 + 1) {
		uint64_t ns = value / NS_PER_US * NS_PER_US;

		assert_true(number_of(parse_size, format_size(value, text)) == value);
		assert_true(number_of(parse_duration, format_duration(ns, text)) == ns);
	}
}

TEST(cpus_are_lists_of_numbers_and_ranges)
{
	cpu_set_t cpus;
	char text[64];

	assert_int_equal(parse_cpus("6,0-3,2", &cpus), 0);
	assert_int_equal(CPU_COUNT(&cpus), 5);
	assert_string_equal(format_cpus(&cpus, text, sizeof(text)), "0-3,6");
	assert_int_equal(parse_cpus("1023", &cpus), 0);
	assert_string_equal(format_cpus(&cpus, text, sizeof(text)), "1023");
	CPU_ZERO(&cpus);
	assert_string_equal(format_cpus(&cpus, text, sizeof(text)), "");
}

TEST(cpus_refuse_what_the_kernel_would_not_write)
{
	assert_refused(parse_cpus, cpu_set_t, -EINVAL, "", ",", "1,", ",1", "3-1", "-1", "1-",
		       "1--2", "0-3/2", "a", "0 ", "0, 1", "1-2-3");
	assert_refused(parse_cpus, cpu_set_t, -ERANGE, "1024", "0-1024", "99999999999999999999");
}

TEST(cpus_that_do_not_fit_are_cut_between_ranges)
{
	cpu_set_t cpus;
	char text[6];

	assert_int_equal(parse_cpus("1,3,10-11", &cpus), 0);
	assert_string_equal(format_cpus(&cpus, text, sizeof(text)), "1,3");
}

static const char *address_of(const char *text)
{
	static char printed[ADDRESS_TEXT_MAX];
	struct address address;

	if (parse_address(text, &address) != 0)
		return "refused";
	return format_address(&address, printed);
}

TEST(addresses_have_a_host_and_ports)
{
	struct address address;

	assert_string_equal(address_of("127.0.0.1:7008"), "127.0.0.1:7008");
	assert_string_equal(address_of("127.0.0.1:0"), "127.0.0.1:0");
	assert_string_equal(address_of("[::1]:65535"), "[::1]:65535");
	assert_string_equal(address_of("[2001:DB8:0::1]:1"), "[2001:db8::1]:1");
	assert_string_equal(address_of("0.0.0.0:7008-7011"), "0.0.0.0:7008-7011");
	assert_string_equal(address_of("0.0.0.0:7008-7008"), "0.0.0.0:7008");
	assert_string_equal(address_of("localhost:7008-7011"), "127.0.0.1:7008-7011");

	assert_int_equal(parse_address("10.1.2.3:5-9", &address), 0);
	assert_int_equal(address.sa.ss_family, AF_INET);
	assert_int_equal(((struct sockaddr_in *)&address.sa)->sin_port, 0);
	assert_int_equal(address.port_first, 5);
	assert_int_equal(address.port_last, 9);
}

/* RFC 4007, 11.2: the interface by its name or number; it is written by its name. */
TEST(link_local_addresses_have_a_zone)
{
	struct address address;

	assert_string_equal(address_of("[fe80::1%lo]:7008"), "[fe80::1%lo]:7008");
	assert_string_equal(address_of("[FE80::2%1]:1-3"), "[fe80::2%lo]:1-3");
	assert_string_equal(address_of("[febf::1%4000000000]:5"), "[febf::1%4000000000]:5");
	assert_int_equal(parse_address("[fe80::1%lo]:7008", &address), 0);
	assert_int_equal(((struct sockaddr_in6 *)&address.sa)->sin6_scope_id, 1);
}

TEST(addresses_refuse_what_is_ambiguous)
{
	assert_refused(parse_address, struct address, -EINVAL, "", ":", ":7008", "7008",
		       "127.0.0.1", "127.0.0.1:", "127.0.0.1:7008 ", " 127.0.0.1:7008",
		       "127.0.0.1:+1", "127.0.0.1:-1", "127.0.0.1:0-5", "127.0.0.1:9-8",
		       "127.0.0.1:1-", "127.0.0.1:1-2-3", "127.1:1", "127.0.0.01:1", "localhost",
		       "localhost:", "Localhost:1", "[localhost]:1", "localhost.:1",
		       "example.com:1", "::1:7008", "[::1]", "[::1]7008", "[::1:7008",
		       "[127.0.0.1]:1", "[]:1", "[fe80::1]:1", "[fe80::1%]:1",
		       "[fe80::1%no-such-if]:1", "[fe80::1%0]:1", "[fe80::1%4294967296]:1",
		       "[::1%lo]:1", "127.0.0.1:7008,127.0.0.1:7009",
		       "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:1");
	assert_refused(parse_address, struct address, -ERANGE, "127.0.0.1:65536",
		       "127.0.0.1:1-65536", "127.0.0.1:99999999999999999999");
}

/* `unix:/` and so on, a path or name of 107 bytes, all that sun_path holds. */
#define NAME_100                                                                                   \
	"0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567" \
	"890123456789"

TEST(unix_addresses_are_paths_or_names)
{
	struct address address;
	struct sockaddr_un *un = (struct sockaddr_un *)&address.sa;

	assert_string_equal(address_of("unix:/run/nbserved/nbd.sock"),
			    "unix:/run/nbserved/nbd.sock");
	assert_string_equal(address_of("unix:/a"), "unix:/a");
	assert_string_equal(address_of("unix:/.a/..b/c./d../..."), "unix:/.a/..b/c./d../...");
	assert_string_equal(address_of("unix:/a:b@[c]"), "unix:/a:b@[c]");
	assert_string_equal(address_of("unix:@nbserved/../nbd"), "unix:@nbserved/../nbd");
	assert_string_equal(address_of("unix:/" NAME_100 "abcdef"), "unix:/" NAME_100 "abcdef");
	assert_string_equal(address_of("unix:@" NAME_100 "abcdef"), "unix:@" NAME_100 "abcdef");

	assert_int_equal(parse_address("unix:/run/s", &address), 0);
	assert_int_equal(address.sa.ss_family, AF_UNIX);
	assert_int_equal(address.port_first, 0);
	assert_int_equal(address.port_last, 0);
	assert_string_equal(un->sun_path, "/run/s");
	assert_int_equal(parse_address("unix:@name", &address), 0);
	assert_memory_equal(un->sun_path, "\0name", sizeof("\0name"));
}

TEST(unix_addresses_refuse_what_is_no_path)
{
	assert_refused(parse_address, struct address, -EINVAL, "unix:", "unix", "unix:a",
		       "unix:./a", "unix:@", "unix:/", "unix:/a/", "unix://a", "unix:/a//b",
		       "unix:/.", "unix:/..", "unix:/a/../b", "unix:/a/./b", "unix:/a/..",
		       "unix:/a b", "unix: /a", "unix:/a\tb", "unix:/\xc3\xa4", "unix:/a\x7f",
		       "UNIX:/a", "/run/a");
	assert_refused(parse_address, struct address, -ERANGE, "unix:/" NAME_100 "abcdefg",
		       "unix:@" NAME_100 "abcdefg");
}

TEST(unix_socket_addresses_print_within_their_bounds)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNIX };
	struct sockaddr_un *un = (struct sockaddr_un *)&sa;
	char text[ADDRESS_TEXT_MAX];

	assert_string_equal(format_sockaddr(&sa, text), "unix:");
	memset(un->sun_path, 'x', sizeof(un->sun_path)); /* a path without a NUL */
	assert_int_equal(strlen(format_sockaddr(&sa, text)), 5 + sizeof(un->sun_path));
	un->sun_path[0] = '\0';
	assert_int_equal(strlen(format_sockaddr(&sa, text)), 5 + sizeof(un->sun_path));
	assert_memory_equal(text, "unix:@x", 7);
}

TEST(socket_addresses_print_with_their_port)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNSPEC };
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&sa;
	char text[ADDRESS_TEXT_MAX];

	assert_string_equal(format_sockaddr(&sa, text), "unknown");
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(80);
	memset(&in6->sin6_addr, 0xff, sizeof(in6->sin6_addr));
	assert_string_equal(format_sockaddr(&sa, text),
			    "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:80");
}
