/* Lines of the screen of `nbctl top`.  See top_page.h. */
#include "top_page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

unsigned page_room(const struct page *p)
{
	unsigned lines = p->screen->height - 1; /* the last one is the help line */

	return lines > p->used ? lines - p->used : 0;
}

/* Ends the text after `width` columns, and at a newline. */
static void cut(char *text, unsigned width)
{
	unsigned columns = 0;

	text[strcspn(text, "\n")] = '\0';
	for (; *text; text++) {
		if (((unsigned char)*text & 0xc0) != 0x80 && columns++ == width) {
			*text = '\0';
			return;
		}
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	}
}

void page_set(struct top_screen *screen, unsigned at, enum style style, char *text)
{
	cut(text, screen->width);
	free(screen->lines[at].text);
	screen->lines[at].text = text;
	screen->lines[at].style = style;
}

void page_put(struct page *p, enum style style, const char *format, ...)
{
	va_list arguments;

	if (page_room(p) == 0)
		return;
	va_start(arguments, format);
	page_set(p->screen, p->used++, style, text_new_arguments(format, arguments));
	va_end(arguments);
}

void page_output(struct output *out, unsigned width, char **text)
{
	*out = (struct output){ .width = width, .terse = true };
	out->file = text_open(text);
}

struct human page_number(double n)
{
	return n > 0 ? human_number(n) : (struct human){ "0" };
}

char *page_next_line(char **rest)
{
	char *line = *rest, *end = line ? strchr(line, '\n') : NULL;

	if (!end)
		return NULL;
	*end = '\0';
	*rest = end + 1;
	return line;
}
