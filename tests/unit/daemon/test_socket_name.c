/* server/socket_name.c: names of kept sockets parse back, and a socket fits its address only. */
#include <errno.h>

#include "socket_name.h"
#include "unit.h"

static struct sockaddr_storage sa(const char *text)
{
	struct address address;

	assert_int_equal(parse_address(text, &address), 0);
	sockaddr_set_port(&address.sa, address.port_first);
	return address.sa;
}

static struct socket_name name(const char *listener, const char *address)
{
	struct socket_name name = { .wanted = sa(address) };

	strcpy(name.listener, listener);
	if (!strncmp(address, "unix:/", 6))
		name.file = (struct file_id){ 0xfe01, 0xabcdef0123 };
	return name;
}

TEST(names_parse_back)
{
	static const char *const texts[][3] = {
		{ "echo", "127.0.0.1:7007", "echo=127.0.0.1 7007" },
		{ "a.b-c_d", "[::1]:0", "a.b-c_d=[  1] 0" },
		{ "u", "unix:/run/a=b:c.sock", "u@fe01.abcdef0123=unix /run/a=b c.sock" },
		{ "u", "unix:@name", "u=unix @name" },
	};
	char text[SOCKET_NAME_TEXT_MAX];
	struct socket_name from, to;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		from = name(texts[i][0], texts[i][1]);
		assert_string_equal(socket_name_format(&from, text), texts[i][2]);
		assert_int_equal(socket_name_parse(text, &to), 0);
		assert_string_equal(to.listener, from.listener);
		assert_true(sockaddr_is_same(&to.wanted, &from.wanted));
		assert_int_equal(to.file.device, from.file.device);
		assert_int_equal(to.file.inode, from.file.inode);
	}
}

/* systemd takes at most 255 bytes, none of them a colon or a control character. */
TEST(the_longest_name_fits_systemd)
{
	struct socket_name from = { .file = { (dev_t)-1, (ino_t)-1 } }, to;
	char text[SOCKET_NAME_TEXT_MAX], address[ADDRESS_TEXT_MAX] = "unix:/";

	memset(address + strlen(address), ':', 106);
	from.wanted = sa(address);
	memset(from.listener, 'x', sizeof(from.listener) - 1);
	assert_true(strlen(socket_name_format(&from, text)) <= 255);
	for (const char *s = text; *s; s++)
		assert_true(*s >= ' ' && *s <= '~' && *s != ':');
	assert_int_equal(socket_name_parse(text, &to), 0);
	assert_true(sockaddr_is_same(&to.wanted, &from.wanted));
}

TEST(other_names_are_refused)
{
	static const char *const texts[] = {
		"",
		"=",
		"echo",
		"nbserved.socket",
		"=127.0.0.1 7007",
		"echo=",
		"echo=127.0.0.1:7007",
		"echo=127.0.0.1 7007-7008",
		"echo=127.0.0.1",
		"e o=127.0.0.1 7007",
		"echo=unix run",
		"echo=127.0.0.1 70077",
		"echo@=unix /run/u",
		"echo@1=unix /run/u",
		"echo@1.=unix /run/u",
		"echo@-1.2=unix /run/u",
		"echo@1.2.3=unix /run/u",
		"echo@1.2",
		"echo@1.2=127.0.0.1 7007", /* has no file */
		"echo@1.2=unix @name",
		"echo=unix /run/u",                     /* must say which */
		"echo@1.0=127.0.0.1 7007",              /* no file has inode 0 */
		"echo@11112222333344445.1=unix /run/u", /* over 64 bits */
		"echo@0x1.2=unix /run/u",
		"echo@01.2=unix /run/u",
	};
	struct socket_name to = name("untouched", "127.0.0.1:1");
	char longer[1000] = "";

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(socket_name_parse(texts[i], &to), -EINVAL);
	memset(longer, 'x', sizeof(longer) - 20);
	strcat(longer, "=127.0.0.1 7007");
	assert_int_equal(socket_name_parse(longer, &to), -EINVAL);
	strcpy(longer, "e=unix /");
	memset(longer + strlen(longer), 'x', sizeof(longer) - 9);
	assert_int_equal(socket_name_parse(longer, &to), -EINVAL);
	assert_string_equal(to.listener, "untouched");
}

static bool fits(struct socket_name wants, struct socket_name had, const char *address)
{
	struct sockaddr_storage at = sa(address);

	return socket_name_fits(&wants, &had, &at);
}

TEST(the_address_decides)
{
	struct socket_name nobody = { .listener = "" }, echo = name("echo", "127.0.0.1:7007");

	assert_true(fits(echo, echo, "127.0.0.1:7007"));
	assert_true(fits(echo, nobody, "127.0.0.1:7007"));
	assert_true(fits(echo, name("other", "127.0.0.1:7007"), "127.0.0.1:7007"));
	assert_true(fits(echo, name("echo", "127.0.0.1:0"), "127.0.0.1:7007"));
	assert_false(fits(echo, echo, "127.0.0.1:7008"));
	assert_false(fits(echo, echo, "127.0.0.2:7007"));
	assert_false(fits(echo, echo, "[::ffff:127.0.0.1]:7007"));
	assert_true(fits(name("u", "unix:/run/u"), nobody, "unix:/run/u"));
	assert_false(fits(name("u", "unix:/run/u"), nobody, "unix:/run/u2"));
	assert_false(fits(name("u", "unix:/run/u"), nobody, "unix:@/run/u"));
}

TEST(port_0_is_the_same_listeners)
{
	struct socket_name nobody = { .listener = "" }, any = name("echo", "[::1]:0");

	assert_true(fits(any, any, "[::1]:40000"));
	assert_false(fits(any, any, "[::2]:40000"));
	assert_false(fits(any, nobody, "[::1]:40000"));
	assert_false(fits(any, name("other", "[::1]:0"), "[::1]:40000"));
	assert_false(fits(any, name("echo", "[::1]:40000"), "[::1]:40000"));
}
