/* config/config*.c: sections, keys, and how all errors are reported at once. */
#include "config_case.h"

#define SECTIONS "[server], [listener NAME] or [export NAME]"

/* ---- Sections and keys ---- */

TEST(unknown_keys_are_errors_with_a_suggestion)
{
	assert_string_equal(refusal("adress = 127.0.0.1:1"),
			    "adress: expected a key of [listener NAME], got 'adress' "
			    "(did you mean 'address'?)\n");
	assert_string_equal(refusal("max_connections = 1"),
			    "max_connections: expected a key of [listener NAME], got "
			    "'max_connections' (did you mean 'max-connections'?)\n");
	assert_errors("[server]\nlisten = x\n",
		      "f:2: [server] listen: expected a key of [server], got 'listen'\n");
	assert_errors("[server]\nworkers = 1\n",
		      "f:2: [server] workers: expected a key of [server], got 'workers'\n");
}

TEST(unknown_sections_are_errors_with_a_suggestion)
{
	assert_errors("[listner a]\nk = v\n", "f:1: expected " SECTIONS ", got '[listner a]' "
					      "(did you mean 'listener'?)\n");
	assert_errors("[Server]\n", "f:1: expected " SECTIONS ", got '[Server]' "
				    "(did you mean 'server'?)\n");
	assert_errors("[]\n", "f:1: expected " SECTIONS ", got '[]'\n");
	assert_errors("[exports disk]\n", "f:1: expected " SECTIONS
					  ", got '[exports disk]' (did you mean 'export'?)\n");
	assert_errors("[export]\n", "f:1: expected " SECTIONS ", got '[export]'\n");
	assert_errors("[listener]\n", "f:1: expected " SECTIONS ", got '[listener]'\n");
	assert_errors("[server x]\n", "f:1: expected " SECTIONS ", got '[server x]'\n");
}

TEST(names_of_listeners_are_plain_and_short)
{
	char text[256];

	assert_error("[listener a b]\n", "f:1:", "got 'a b'");
	assert_has(errors_of("[listener \xc3\xa4]\n"), "got '\\xc3\\xa4'\n");
	assert_has(errors_of("[listener a/b]\n"), "got 'a/b'\n");
	snprintf(text, sizeof(text), "[listener %063d]\naddress = [::1]:1\nservice = echo\n", 0);
	config_free(load(text));
	snprintf(text, sizeof(text), "[listener %064d]\naddress = [::1]:1\nservice = echo\n", 0);
	errors_of(text);
}

TEST(names_that_differ_at_the_end_are_two_listeners)
{
	char text[512];
	CLEANUP(config_free_p) struct config *c;

	snprintf(text, sizeof(text),
		 "[listener %062da]\naddress = [::1]:1\nservice = echo\n"
		 "[listener %062db]\naddress = [::1]:2\nservice = discard\n",
		 0, 0);
	c = load(text);
	assert_int_equal(c->listener_count, 2);
}

TEST(a_key_is_set_once_in_a_file)
{
	assert_errors(GOOD "service = discard\nworkers = 1\nworkers = 1\n",
		      "f:4: [listener a] service: expected one value, got 'discard' as well "
		      "(first in line 3)\n"
		      "f:6: [listener a] workers: expected one value, got '1' as well "
		      "(first in line 5)\n");
}

TEST(a_section_is_opened_once_in_a_file)
{
	assert_errors(
		GOOD "[server]\n[listener a]\nworkers = none\n[server]\n",
		"f:5: [listener a]: duplicate section, first at line 1\n"
		"f:6: [listener a] workers: expected a number from 1 to 64 or auto, got 'none'\n"
		"f:7: [server]: duplicate section, first at line 4\n");
}

TEST(a_listener_needs_an_address_and_a_service)
{
	assert_errors("\n[listener a]\nworkers = 1\n",
		      "f:2: [listener a] address: expected " ADDRESS ", got nothing\n"
		      "f:2: [listener a] service: expected " SERVICES ", got nothing\n");
}

TEST(a_path_is_an_address_with_unix_before_it)
{
	assert_errors("[listener a]\nservice = echo\naddress = /run/nbd.sock\n"
		      "address = unix:run/nbd.sock\naddress = unix:/run//nbd.sock\n"
		      "address = unix:nbd.sock\n",
		      "f:3: [listener a] address: expected " ADDRESS ", got '/run/nbd.sock' "
		      "(did you mean 'unix:/run/nbd.sock'?)\n"
		      "f:4: [listener a] address: expected " ADDRESS ", got 'unix:run/nbd.sock'\n"
		      "f:5: [listener a] address: expected " ADDRESS ", got 'unix:/run//nbd.sock' "
		      "(a path without '//', '.', '..' or '/' at its end)\n"
		      "f:6: [listener a] address: expected " ADDRESS ", got 'unix:nbd.sock'\n");
}

TEST(a_unix_socket_belongs_to_one_address)
{
	assert_errors(
		"[server]\ncontrol = /run/c\n[listener a]\nservice = echo\n"
		"address = unix:/run/a, unix:@a, 127.0.0.1:0\naddress = unix:/run/a\n"
		"[listener b]\nservice = echo\naddress = unix:@a, unix:@b, unix:/run/b\n"
		"address = unix:/run/c\n",
		"f:6: [listener a] address: 'unix:/run/a' is already used by [listener a] (f:5: unix:/run/a)\n"
		"f:9: [listener b] address: 'unix:@a' is already used by [listener a] (f:5: unix:@a)\n"
		"f:10: [listener b] address: 'unix:/run/c' is already used by [server] control\n");
}

TEST(a_wrong_address_is_not_a_missing_one)
{
	assert_errors("[listener a]\nservice = echo\naddress = example.com:1\n",
		      "f:3: [listener a] address: expected " ADDRESS ", got 'example.com:1' (names "
		      "are not looked up; localhost:PORT is 127.0.0.1:PORT)\n");
}

/* ---- Errors ---- */

TEST(all_errors_come_at_once_in_the_order_of_the_lines)
{
	assert_errors(
		"x = 1\n[server]\nlog-level = loud\n[listener a]\n  address = 127.0.0.1:1\n"
		"engine = epoll\nsqpoll = yes\n[broken\nk = v\n[listener b]\nservice = x\n",
		"f:1: expected a [SECTION] before the first key, got 'x = 1'\n"
		"f:3: [server] log-level: expected error, warning, info or debug, got "
		"'loud'\n"
		"f:4: [listener a] address: expected " ADDRESS ", got nothing\n"
		"f:4: [listener a] service: expected " SERVICES ", got nothing\n"
		"f:5: expected no white space at the start of a line, got '  address = 127.0.0.1:1'\n"
		"f:7: [listener a] sqpoll: requires engine = io_uring (engine is epoll)\n"
		"f:8: expected [SECTION], got '[broken'\n"
		"f:10: [listener b] address: expected " ADDRESS ", got nothing\n"
		"f:11: [listener b] service: expected " SERVICES ", got 'x'\n");
}

TEST(errors_beyond_the_limit_are_counted)
{
	struct config_errors errors = { 0 };
	struct config *config = NULL;
	char text[4096] = "";

	for (unsigned i = 0; i < CONFIG_ERRORS_MAX + 50; i++)
		strcat(text, "junk\n");
	assert_int_equal(config_load_text("f", text, strlen(text), &config, &errors), -EINVAL);
	assert_int_equal(errors.count, CONFIG_ERRORS_MAX + 50);
	assert_string_equal(errors.text[CONFIG_ERRORS_MAX - 1],
			    "f:200: expected 'KEY = VALUE', got 'junk'");
	config_errors_free(&errors);
	assert_int_equal(errors.count, 0);
}

TEST(errors_are_ascii_whatever_the_file_holds)
{
	CLEANUP(config_errors_free) struct config_errors errors = { 0 };
	struct config *config = NULL;
	const char *text = "[listener \xff]\n\x80\n";

	assert_int_equal(config_load_text("a\nb", text, strlen(text), &config, &errors), -EINVAL);
	assert_string_equal(join(&errors),
			    "a\\x0ab:1: expected [listener NAME] with a name of A-Z, a-z, 0-9, "
			    "'_', '.', '-', up to 63 bytes, got '\\xff'\n"
			    "a\\x0ab:2: expected 'KEY = VALUE', got '\\x80'\n");
}

TEST(too_many_listeners_are_an_error)
{
	static char text[64 * (CONFIG_LISTENERS_MAX + 1)];

	for (unsigned i = 0; i <= CONFIG_LISTENERS_MAX; i++)
		sprintf(text + strlen(text),
			"[listener l%u]\naddress = 127.0.0.1:%u\nservice = echo\n", i, i + 1);
	assert_errors(text, "f:769: [listener l256]: expected at most 256 listeners, got one "
			    "more\n");
}
