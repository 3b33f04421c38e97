/* config/config*.c: the values that a configuration accepts, and the errors for others. */
#include "config_case.h"

#include <unistd.h>

/* ---- Values ---- */

TEST(a_configuration_without_listeners_is_fine)
{
	CLEANUP(config_free_p) struct config *c = load("");

	assert_int_equal(c->listener_count, 0);
}

TEST(a_refused_value_names_what_is_expected)
{
	static const char *const cases[][2] = {
		{ "workers = 0", "workers: expected a number from 1 to 64 or auto, got '0'\n" },
		{ "workers = 65", "a number from 1 to 64 or auto, got '65'\n" },
		{ "max-connections = -1", "a number from 0 to 1000000, got '-1'\n" },
		{ "buffers = 15", "a number from 16 to 32768, got '15'\n" },
		{ "busy-poll = 2s", "(us, ms, s, min, h) from 0 to 1s or auto, got '2s'\n" },
		{ "idle-timeout = 30", "(us, ms, s, min, h) from 0 to 24h, got '30'\n" },
		{ "zero-copy-min = 1GB", "a size (K, M, G, T) from 0 to 1G, got '1GB'\n" },
		{ "buffer-size = 5K",
		  "a power of two (K, M, G, T) from 4K to 1M or auto, got '5K'" },
		{ "buffer-size = 2K", "from 4K to 1M or auto, got '2K'\n" },
		{ "buffer-size = 2M", "from 4K to 1M or auto, got '2M'\n" },
		{ "optional =", "optional: expected yes or no, got ''\n" },
		{ "allow =",
		  "127.0.0.0/8 or ::1 (no bits behind the prefix), local or any, got ''" },
		{ "allow = ::1,,::2", "got ''\n" },
		{ "allow = ::1,", "got ''\n" },
		{ "allow = any, ::1", "expected either 'any' or networks, got '::1' as well\n" },
		{ "allow = ::1, any", "expected either 'any' or networks, got 'any' as well\n" },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		assert_has(refusal(cases[i][0]), cases[i][1]);
}

TEST(cpus_beyond_this_host_are_an_error)
{
	long last = sysconf(_SC_NPROCESSORS_CONF) - 1;
	char text[64], expected[256];

	snprintf(text, sizeof(text), "sqpoll = %ld", last + 1);
	snprintf(expected, sizeof(expected),
		 "sqpoll: expected the number of a CPU of this host, yes or no, got '%ld' "
		 "(this host has the CPUs 0-%ld)\n",
		 last + 1, last);
	assert_string_equal(refusal(text), expected);
	snprintf(text, sizeof(text), "cpus = 0-%ld", last + 1);
	snprintf(expected, sizeof(expected),
		 "cpus: expected CPUs of this host such as 0-3,6 or any, got '0-%ld' "
		 "(this host has the CPUs 0-%ld)\n",
		 last + 1, last);
	assert_string_equal(refusal(text), expected);
}

/* A transport, its engines and its services go together. */
TEST(transports_keep_to_their_own)
{
	assert_error("[listener a]\naddress = 127.0.0.1:1\nservice = rping\n",
		     "f:3: [listener a] service:", "got 'rping' (it needs `transport = rdma`)");
#ifdef NB_RDMA
	assert_string_equal(refusal("engine = rdma"),
			    "engine: expected one for transport tcp, got 'rdma' (it needs "
			    "`transport = rdma`)\n");
	assert_error(GOOD "transport = rdma\nengine = epoll\n",
		     "f:5: [listener a] engine:", "got 'epoll' (it needs `transport = tcp`)");
	assert_errors(GOOD "transport = rdma\nsqpoll = yes\n",
		      "f:5: [listener a] sqpoll: requires engine = io_uring (transport is rdma)\n");
	assert_error("[listener a]\naddress = 127.0.0.1:1\ntransport = rdma\nservice = http\n",
		     "f:4: [listener a] service:", "got 'http' (it needs `transport = tcp`)");
#else
	assert_has(refusal("transport = rdma"),
		   "transport: got 'rdma', but this build is without RDMA; ");
	config_free(load(GOOD "transport = rdma\noptional = yes\n"));
#endif
}

/* A key that depends on a refused value is not judged by that value's default. */
TEST(a_refused_value_is_one_error)
{
	assert_error("[listener a]\naddress = 127.0.0.1:1\ntransport = rmda\nservice = rping\n"
		     "sqpoll = yes\n",
		     "f:3: [listener a] transport:", "got 'rmda' (did you mean 'rdma'?)");
	assert_error(GOOD "engine = urin\nsqpoll = 0\n", "f:4: [listener a] engine:", "got 'urin'");
	assert_error("[export x]\npath = x\n", "f:2: [export x] path:", "got 'x'");
	assert_errors(
		"[export x]\npath = /x\nsize = 5X\ncreate = yes\ndirect = ye\n",
		"f:3: [export x] size: expected a size (K, M, G, T) from 0 to 1048576T, got '5X'\n"
		"f:5: [export x] direct: expected no, yes or poll, got 'ye' (did you mean 'yes'?)\n");
}

TEST(words_are_suggested)
{
	assert_string_equal(refusal("optional = yess"),
			    "optional: expected yes or no, got 'yess' (did you mean 'yes'?)\n");
	assert_has(refusal("engine = iouring"), "got 'iouring' (did you mean 'io_uring'?)\n");
	assert_has(refusal("engine = eploll"), "got 'eploll' (did you mean 'epoll'?)\n");
	assert_has(refusal("workers = atuo"), "(did you mean 'auto'?)\n");
	assert_has_not(refusal("engine = kqueue"), "did you mean");
	assert_error("[server]\nlog-level = warn\n",
		     "f:2: [server] log-level:", "got 'warn' (did you mean 'warning'?)");
	assert_errors("[listener a]\naddress = 127.0.0.1:1\nservice = ehco\n",
		      "f:3: [listener a] service: expected " SERVICES ", got 'ehco' "
		      "(did you mean 'echo'?)\n");
}

TEST(paths_are_absolute_and_fit_a_socket_address)
{
	char text[256];

	assert_error("[server]\ncontrol = run/c\n", "f:2: [server] control:", "got 'run/c'");
	assert_has(errors_of("[server]\ncontrol = /a b\n"), "got '/a b'\n");
	assert_has(errors_of("[server]\ncontrol = /\xc3\xa4\n"), "got '/\\xc3\\xa4'\n");
	snprintf(text, sizeof(text), "[server]\ncontrol = /%0106d\n", 0);
	config_free(load(text));
	snprintf(text, sizeof(text), "[server]\ncontrol = /%0107d\n", 0);
	errors_of(text);
	assert_error("[server]\ncontrol-group = a b\n",
		     "f:2: [server] control-group:", "got 'a b'");
}

/* Odd lengths only. */
static void make_cpus(char *text, size_t bytes)
{
	strcpy(text, "0");
	while (strlen(text) < bytes)
		strcat(text, ",0");
}

TEST(a_value_has_at_most_180_bytes)
{
	char value[200], text[512];

	make_cpus(value, 179);
	snprintf(text, sizeof(text), GOOD "cpus=%s\n", value);
	config_free(load(text));
	make_cpus(value, 181);
	snprintf(text, sizeof(text), "cpus=%s", value);
	assert_has(refusal(text), "cpus: expected at most 180 bytes, got '0,0,");
}

/* ---- Lists ---- */

TEST(lists_have_a_limit)
{
	char text[4096] = GOOD;

	for (unsigned i = 0; i < CONFIG_NETWORKS_MAX + 1; i++)
		sprintf(text + strlen(text), "allow = 10.0.%u.0/24\n", i);
	assert_errors(text, "f:68: [listener a] allow: expected at most 64 entries, got "
			    "'10.0.64.0/24' as well\n");
	strcpy(text, GOOD);
	for (unsigned i = 0; i < CONFIG_ADDRESSES_MAX; i++)
		sprintf(text + strlen(text), "address = 127.0.0.1:%u\n", i + 1);
	assert_errors(text, "f:19: [listener a] address: expected at most 16 entries, got "
			    "'127.0.0.1:16' as well\n");
}

TEST(an_allow_list_of_any_is_none)
{
	struct config *c = load(GOOD "allow = any\n");

	assert_int_equal(c->listeners[0].allow_count, 0);
	config_free(c);
	c = load(GOOD "allow = 0.0.0.0/0\n");
	assert_int_equal(c->listeners[0].allow_count, 1);
	config_free(c);
}

TEST(a_listener_has_at_most_256_ports)
{
	config_free(load("[listener a]\nservice = echo\naddress = 127.0.0.1:1-256\n"));
	assert_error("[listener a]\nservice = echo\naddress = 127.0.0.1:1-200\n"
		     "address = 127.0.0.1:1001-1057\n",
		     "f:4: [listener a] address:",
		     "at most 256 ports in a listener, got '127.0.0.1:1001-1057'");
}

/* ---- Across keys ---- */

/* The error of two listeners with these addresses; "": they may be used together. */
static const char *overlap(const char *a, const char *b)
{
	char text[512];

	snprintf(text, sizeof(text),
		 "[listener a]\nservice = echo\naddress = %s\n"
		 "[listener b]\nservice = echo\naddress = %s\n",
		 a, b);
	return errors_if_any(text);
}

TEST(connections_do_not_come_to_a_group)
{
	assert_string_equal(
		overlap("224.0.0.9:1", "[ff02::1]:2"),
		"f:3: [listener a] address: expected the address of a host, got '224.0.0.9:1'\n"
		"f:6: [listener b] address: expected the address of a host, got '[ff02::1]:2'\n");
}

TEST(two_listeners_cannot_share_an_address)
{
	static const struct {
		const char *a, *b;
		bool overlap;
	} cases[] = {
		{ "127.0.0.1:7000-7010", "127.0.0.1:7010-7020", true },
		{ "[::1]:1", "[0::1]:1", true },
		{ "127.0.0.1:1", "[::ffff:127.0.0.1]:1", true },
		{ "127.0.0.1:1", "127.0.0.1:2", false },
		{ "127.0.0.1:1", "127.0.0.2:1", false },
		/* wildcards overlap within their family */
		{ "0.0.0.0:1", "127.0.0.1:1", true },
		{ "127.0.0.1:1", "0.0.0.0:1", true },
		{ "[::]:1", "[::1]:1", true },
		{ "[::]:1", "127.0.0.1:1", false },
		{ "[::]:1", "0.0.0.0:1", false },
		{ "0.0.0.0:1", "127.0.0.1:2", false },
		/* port 0 is another one each time */
		{ "127.0.0.1:0", "127.0.0.1:0", false },
		{ "0.0.0.0:0", "127.0.0.1:7008", false },
	};

	assert_string_equal(
		overlap("127.0.0.1:7008", "127.0.0.1:7008"),
		"f:6: [listener b] address: '127.0.0.1:7008' is already used by [listener a] (f:3: 127.0.0.1:7008)\n");
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++)
		if ((*overlap(cases[i].a, cases[i].b) != '\0') != cases[i].overlap)
			fail_msg("%s and %s: '%s'", cases[i].a, cases[i].b, joined);
}

TEST(one_listener_cannot_have_an_address_twice)
{
	assert_string_equal(
		refusal("address = 0.0.0.0:7008"),
		"address: '0.0.0.0:7008' is already used by [listener a] (f:2: 127.0.0.1:7008)\n");
}

TEST(features_of_io_uring_need_that_engine)
{
	assert_errors(
		GOOD "engine = epoll\nsqpoll = yes\nzero-copy-min = 8K\n",
		"f:5: [listener a] sqpoll: requires engine = io_uring (engine is epoll)\n"
		"f:6: [listener a] zero-copy-min: requires engine = io_uring (engine is epoll)\n");
	assert_errors(
		GOOD "sqpoll = yes\nengine = io_uring-poll\n",
		"f:4: [listener a] sqpoll: requires engine = io_uring (engine is io_uring-poll)\n");
	config_free(load(GOOD "engine = epoll\nsqpoll = no\nzero-copy-min = 0\n"));
	config_free(load(GOOD "engine = auto\nsqpoll = yes\nzero-copy-min = 8K\n"));
}
