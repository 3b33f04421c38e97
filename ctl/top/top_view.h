/* The screen of `nbctl top` as lines of text.  Pure: top.c draws them. */
#pragma once
#include <stdbool.h>

#include "render.h"
#include "top_model.h"

struct top_line {
	char *text; /* at most `width` columns of UTF-8, or of ASCII */
	enum style style;
};

struct top_screen {
	unsigned width, height;
	bool utf8;              /* UTF-8 may be used; else ASCII alone */
	struct top_line *lines; /* `height` of them */
};

/* On a smaller screen only a line that says so is shown. */
enum { TOP_WIDTH_MIN = 40, TOP_HEIGHT_MIN = 8 };

/* Fills in the lines; width, height and utf8 are the caller's.  Lowers top->first until the table
 * fills the screen. */
void top_screen_init(struct top_screen *screen, struct top *top);
void top_screen_fini(struct top_screen *screen);
