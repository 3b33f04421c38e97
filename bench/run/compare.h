/* The commands that measure or show: words, run, compare, show; their options. */
#pragma once
#include <stdio.h>

#include "ctl.h"
#include "limit.h"
#include "points.h"
#include "print.h"
#include "rounds.h"
#include "rows.h"

/* Indices of struct ctl's values: VALUE_REPEAT and so on. */
enum {
#define OPTION(id, ...) VALUE_##id,
#include "compare_option_list.h"
#undef OPTION
};

/* The options of a command, for the member `options` of its struct command. */
enum compare_command { WORDS = 1, RUN = 2, COMPARE = 4, SHOW = 8 };
#define COMPARE_OPTION(id, in, command, name, ...)                                                 \
	[VALUE_##id] = { (in) & (command) ? name : NULL, __VA_ARGS__ },

struct compare {
	struct rounds rounds;
	unsigned timeout_ms;              /* of a run of COMMAND; 0: none */
	double within;                    /* see struct measures */
	struct rows_file save, html, svg; /* of the options */
	struct serve *serve;              /* NULL: a daemon runs already */
	bool loaded;                      /* saved rows are shown: nothing is measured */
	struct measures before;           /* rows of --against, merged */
	struct limit *limit_list;         /* of --fail-if */
	unsigned limit_count;
	struct points points;
	bool visits; /* COMMAND has placeholders: it is run against one listener after the other */
	int status;  /* exit code of COMMAND, or of another failure that ended measuring early */
};

/* Reads and checks the options and COMMAND, and sets *c.  An exit code. */
int compare_options(struct ctl *ctl, struct compare *c);
void compare_options_fini(struct compare *c);

/* Measures ctl->rest against daemons that serve ctl->specs, by the options of ctl, and shows the
 * result; chooses the control socket.  An exit code. */
int compare_serving(struct ctl *ctl);

/* Writes the page of saved rows.  An exit code. */
int compare_page(const char *path, const char *rows);
