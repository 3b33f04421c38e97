/* config/config_diff.c: every change is found, said and classed; nothing else is. */
#include "config_case.h"

#include "config_diff.h"
#include "config_keys.h"

#define OTHER "[listener b]\naddress = 127.0.0.1:7009\nservice = discard\n"
#define NBD   "[listener n]\naddress = 127.0.0.1:7010\nservice = nbd\nexports = x\n"

static struct config_diff diff;

/* The lines of the difference between two configurations; `diff` owns them. */
static const char *compare(const char *from, const char *to)
{
	struct config *before = load(from), *after = load(to);

	config_diff_make(&diff, before, after);
	config_free(before);
	config_free(after);
	joined[0] = '\0';
	for (unsigned i = 0; i < diff.count; i++) {
		strcat(joined, diff.list[i].text);
		strcat(joined, "\n");
	}
	return joined;
}

static void check(const char *from, const char *to, const char *expected)
{
	assert_string_equal(compare(from, to), expected);
	config_diff_free(&diff);
}

TEST(equal)
{
	check(GOOD OTHER, GOOD OTHER, "");
	check(GOOD OTHER, OTHER GOOD, "");
	check(GOOD "idle-timeout = 60s\n", "; moved\n" GOOD "idle-timeout = 1min\n", "");
	check(GOOD, GOOD "max-connections = 10000\nallow = any\n", "");
}

TEST(keys)
{
	check(GOOD, GOOD "idle-timeout = 5s\n", "f:4: [listener a] idle-timeout: 0 -> 5s (live)\n");
	check(GOOD "idle-timeout = 5s\n", GOOD, "f:4: [listener a] idle-timeout: 5s -> 0 (live)\n");
	check(GOOD, GOOD "allow = 10.0.0.0/8, ::1\n",
	      "f:4: [listener a] allow: any -> 10.0.0.0/8, ::1 (live)\n");
	check(GOOD, GOOD "address = 127.0.0.1:7009\n",
	      "f:2: [listener a] address: 127.0.0.1:7008 -> 127.0.0.1:7008, 127.0.0.1:7009 "
	      "(listener)\n");
	check("[server]\n" GOOD, "[server]\ncontrol = /tmp/c\nlog-level = debug\n" GOOD,
	      "f:2: [server] control: /run/nbserved/control.sock -> /tmp/c (restart)\n"
	      "f:3: [server] log-level: info -> debug (live)\n");
}

TEST(sections)
{
	check(GOOD, GOOD OTHER, "f:4: [listener b]: added (listener)\n");
	check(GOOD OTHER, GOOD, "f:4: [listener b]: removed (listener)\n");
	check(GOOD, OTHER,
	      "f:1: [listener b]: added (listener)\nf:1: [listener a]: removed (listener)\n");
}

TEST(exports)
{
	check(NBD "[export x]\nstore = null\nsize = 1M\n",
	      NBD "[export x]\nstore = null\nsize = 2M\nread-only = yes\n",
	      "f:7: [export x] size: 1M -> 2M (export)\n"
	      "f:8: [export x] read-only: no -> yes (export)\n");
	check(NBD "[export x]\nstore = null\nsize = 1M\n",
	      NBD "exports = y\n[export x]\nstore = null\nsize = 1M\n"
		  "[export y]\nstore = null\nsize = 1M\n",
	      "f:4: [listener n] exports: x -> x, y (listener)\nf:9: [export y]: added (export)\n");
}

TEST(classes)
{
	compare(GOOD OTHER, GOOD "buffers = 64\n" OTHER "idle-timeout = 1s\n");
	assert_true(config_diff_has(&diff, CONFIG_LISTENER, "a", CONFIG_REPLACE));
	assert_false(config_diff_has(&diff, CONFIG_LISTENER, "a", CONFIG_LIVE));
	assert_false(config_diff_has(&diff, CONFIG_LISTENER, "b", CONFIG_REPLACE));
	assert_true(config_diff_has(&diff, CONFIG_LISTENER, "b", CONFIG_LIVE));
	assert_true(config_diff_has(&diff, CONFIG_LISTENER, NULL, CONFIG_LIVE));
	assert_false(config_diff_has(&diff, CONFIG_SERVER, NULL, CONFIG_RESTART));
	config_diff_free(&diff);
}
