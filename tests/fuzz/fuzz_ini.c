/* Fuzzes config/ini.c: whatever the bytes, events come in the order of the lines, and no setting
 * holds more than its line says. */
#include "fuzz.h"
#include "ini.h"

struct seen {
	const char *bytes, *end;
	unsigned line;
	const char *line_start, *line_end;
	unsigned sections;
};

/* Moves on to `line`; it exists. */
static void go_to(struct seen *s, unsigned line)
{
	assert(line >= s->line);
	for (; s->line < line; s->line++) {
		s->line_start = s->line ? s->line_end + 1 : s->bytes;
		assert(s->line_start < s->end);
		s->line_end = memchr(s->line_start, '\n', (size_t)(s->end - s->line_start));
		if (!s->line_end)
			s->line_end = s->end;
	}
}

static void assert_in_line(const struct seen *s, const char *text)
{
	assert(memmem(s->line_start, (size_t)(s->line_end - s->line_start), text, strlen(text)));
}

static void on_section(void *context, unsigned line, const char *text)
{
	struct seen *s = context;

	assert(line > s->line);
	go_to(s, line);
	s->sections++;
	assert_in_line(s, text);
	assert(!strchr(text, ']'));
}

static void on_setting(void *context, unsigned line, const char *key, const char *value)
{
	struct seen *s = context;

	assert(line > s->line && s->sections > 0);
	go_to(s, line);
	assert(*key && !strpbrk(key, " \t=[];#:"));
	assert_in_line(s, key);
	assert_in_line(s, value);
	assert(!memchr(s->line_start, '\0', (size_t)(s->line_end - s->line_start)));
	assert(s->line_end - s->line_start <= INI_LINE_MAX + 4); /* CR and byte order mark */
}

static void on_error(void *context, unsigned line, const char *text)
{
	go_to(context, line);
	assert(!strncmp(text, "expected ", strlen("expected ")));
	assert(strlen(text) < INI_ERROR_MAX - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct ini_events events = { on_section, on_setting, on_error };
	struct seen seen = { .bytes = (const char *)data, .end = (const char *)data + bytes };

	ini_read((const char *)data, bytes, &events, &seen);
	return 0;
}
