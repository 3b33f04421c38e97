/* config/ini.c: the lines that are read, and that every trap of inih is an error with its line. */
#include "ini.h"
#include "unit.h"
#include "util.h"

/* The events as text, one a line: `2 [x]`, `3 key=value`, `4! expected ...`. */
struct events {
	char text[8192];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void append(struct events *events, const char *format,
							 ...)
{
	size_t room = sizeof(events->text) - events->length;
	va_list args;
	int bytes;

	va_start(args, format);
	bytes = vsnprintf(events->text + events->length, room, format, args);
	va_end(args);
	assert_true(bytes >= 0 && (size_t)bytes < room);
	events->length += (size_t)bytes;
}

static void on_section(void *context, unsigned line, const char *text)
{
	append(context, "%u [%s]\n", line, text);
}

static void on_setting(void *context, unsigned line, const char *key, const char *value)
{
	append(context, "%u %s=%s\n", line, key, value);
}

static void on_error(void *context, unsigned line, const char *text)
{
	append(context, "%u! %s\n", line, text);
}

static const char *read_bytes(const char *bytes, size_t length)
{
	static struct events events;
	static const struct ini_events handlers = { on_section, on_setting, on_error };
	/* Without a NUL behind it, so that the sanitizer sees a read too far. */
	char *exact = calloc(1, length ? length : 1);

	events = (struct events){ 0 };
	memcpy(exact, bytes, length);
	ini_read(exact, length, &handlers, &events);
	free(exact);
	return events.text;
}

static const struct {
	const char *bytes;
	size_t length;
	const char *events;
} cases[] = {
#define READS(bytes, events)                                                                       \
	{                                                                                          \
		bytes, sizeof(bytes) - 1, events                                                   \
	}
	/* Settings come with their section and line. */
	READS("[a]\nk = v\n\nl=w\n[b c]\nk =\tx y\n", "1 [a]\n2 k=v\n4 l=w\n5 [b c]\n6 k=x y\n"),
	/* An empty file is fine. */
	READS("", ""),
	READS("\n", ""),
	READS("  \n\t\n", ""),
	/* The last line needs no end. */
	READS("[a]\nk = v", "1 [a]\n2 k=v\n"),
	READS("[a]", "1 [a]\n"),
	READS("[a] ", "1 [a]\n"),
	/* Comments stand alone or behind white space. */
	READS("; x\n# x\n  ; x\n\t# x\n[a] ; x\n[b]\t;x\nk = v ; x = y\nl = v;w\nm = v # w\n",
	      "5 [a]\n6 [b]\n7 k=v\n8 l=v;w\n9 m=v # w\n"),
	/* An empty value is left to the caller. */
	READS("[a]\nk =\nl = ; x\n", "1 [a]\n2 k=\n3 l=\n"),
	/* A value may hold equals signs and brackets. */
	READS("[a]\nk = [::1]:7008\nl = a = b\nm =: x\n",
	      "1 [a]\n2 k=[::1]:7008\n3 l=a = b\n4 m=: x\n"),
	/* CRLF and a byte order mark are fine. */
	READS("\xef\xbb\xbf[a]\r\nk = v\r\n\r\n; x\r\n", "1 [a]\n2 k=v\n"),
	READS("\xef\xbb\xbf", ""),
	/* A byte order mark elsewhere is an error. */
	READS("[a]\n\xef\xbb\xbfk = v\n",
	      "1 [a]\n2! expected 'KEY = VALUE', got '\xef\xbb\xbfk = v'\n"),
	/* A CR alone is an error. */
	READS("[a]\rk = v\r", "1! expected lines that end with LF or CR LF, got a CR alone\n"),
	READS("[a]\nk = v\r",
	      "1 [a]\n2! expected lines that end with LF or CR LF, got a CR alone\n"),
	READS("[a]\nk = v\r\r\n",
	      "1 [a]\n2! expected lines that end with LF or CR LF, got a CR alone\n"),
	/* A NUL byte is an error. */
	READS("[a]\nk = v\0w\nl = w\n", "1 [a]\n2! expected text, got the byte 0x00\n3 l=w\n"),
	READS("\0", "1! expected text, got the byte 0x00\n"),
	READS("; \0\n", "1! expected text, got the byte 0x00\n"),
	/* Control characters are an error. */
	READS("[a]\nk = \x1b[2J\nl = \x7f\nm = \v\n", "1 [a]\n2! expected text, got the byte 0x1b\n"
						      "3! expected text, got the byte 0x7f\n"
						      "4! expected text, got the byte 0x0b\n"),
	/* A long section name is not cut. */
	READS("[listener abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz]\nk = v\n",
	      "1 [listener abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz]\n2 k=v\n"),
	/* An indented line continues nothing. */
	READS("[a]\nk = v\n w\n\tl = x\n  [b]\nm = y\n",
	      "1 [a]\n2 k=v\n"
	      "3! expected no white space at the start of a line, got ' w'\n"
	      "4! expected no white space at the start of a line, got '\tl = x'\n"
	      "5! expected no white space at the start of a line, got '  [b]'\n"
	      "6 m=y\n"),
	/* Nothing may stand behind a section. */
	READS("[a] junk\n", "1! expected nothing behind [SECTION], got 'junk'\n"),
	READS("[a];x\n", "1! expected nothing behind [SECTION], got ';x'\n"),
	READS("[a] # x\n", "1! expected nothing behind [SECTION], got '# x'\n"),
	READS("[a]]\n", "1! expected nothing behind [SECTION], got ']'\n"),
	/* An empty section is left to the caller. */
	READS("[]\n[ ]\n[  a  ]\n", "1 []\n2 []\n3 [a]\n"),
	/* Keys behind a broken section land nowhere. */
	READS("[a]\nk = 1\n[noclose\nk = 2\n[b] junk\nk = 3\nbad\n[c]\nk = 4\n",
	      "1 [a]\n2 k=1\n3! expected [SECTION], got '[noclose'\n"
	      "5! expected nothing behind [SECTION], got 'junk'\n"
	      "7! expected 'KEY = VALUE', got 'bad'\n"
	      "8 [c]\n9 k=4\n"),
	/* A setting needs a key and an equals sign. */
	READS("[a]\n=v\n = v\nkey\nkey: v\na b = c\nk;x = v\n\"k\" = v\n",
	      "1 [a]\n"
	      "2! expected 'KEY = VALUE', got '=v'\n"
	      "3! expected no white space at the start of a line, got ' = v'\n"
	      "4! expected 'KEY = VALUE', got 'key'\n"
	      "5! expected 'KEY = VALUE', got 'key: v'\n"
	      "6! expected 'KEY = VALUE', got 'a b = c'\n"
	      "7! expected 'KEY = VALUE', got 'k;x = v'\n"
	      "8! expected 'KEY = VALUE', got '\"k\" = v'\n"),
	/* A key outside a section is an error. */
	READS("k = v\n[a]\nk = v\n",
	      "1! expected a [SECTION] before the first key, got 'k = v'\n2 [a]\n3 k=v\n"),
#undef READS
};

TEST(each_text_has_its_events)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_string_equal(read_bytes(cases[i].bytes, cases[i].length), cases[i].events);
}

/* `[a]` and a setting whose line has `bytes` bytes. */
static const char *read_long_line(size_t bytes, const char *end)
{
	char text[1024] = "[a]\nk=";

	memset(text + strlen(text), 'v', bytes - 2);
	strcat(text, end);
	return read_bytes(text, strlen(text));
}

TEST(a_line_of_198_bytes_is_read_whole)
{
	const char *text;

	text = read_long_line(INI_LINE_MAX, "\nl=w\n");
	assert_int_equal(strcspn(text + strlen("1 [a]\n2 k="), "\n"), INI_LINE_MAX - 2);
	assert_has(text, "v\n3 l=w\n");
	text = read_long_line(INI_LINE_MAX, "\r\nl=w\n");
	assert_has(text, "v\n3 l=w\n");
}

TEST(a_longer_line_is_an_error_and_no_new_setting)
{
	assert_string_equal(read_long_line(INI_LINE_MAX + 1, "\nl=w\n"),
			    "1 [a]\n2! expected at most 198 bytes in a line, got 199\n3 l=w\n");
	assert_string_equal(read_long_line(500, " x=y"),
			    "1 [a]\n2! expected at most 198 bytes in a line, got 504\n");
}

TEST(a_comment_may_exceed_the_limit_of_a_line)
{
	char text[600];

	memset(text, ';', sizeof(text));
	assert_string_equal(read_bytes(text, sizeof(text)), "");
}
