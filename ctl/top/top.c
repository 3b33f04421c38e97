/* `nbctl top`: the terminal, the daemon, and the loop between them. top_model.c and top_view.c
 * decide the contents of the screen.  If the daemon is gone, reconnects every second. */
#include <errno.h>
#include <langinfo.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "client.h"
#include "ctl.h"
#include "field.h"
#include "top_view.h"
#include "util.h"

enum {
	INTERVAL_MS = 1000,
	RETRY_MS = 1000,
	SILENCE_MS = 3000, /* silence beyond the interval after which a message is shown */
	ESCAPE_MS = 25,
};

enum { VALUE_INTERVAL, VALUE_SORT };

struct session {
	struct ctl *ctl;
	struct top top;
	struct client *stats; /* NULL: not connected */
	uint64_t active_ns;   /* time of the last document or the last attempt to connect */
};

/* ---- The daemon ---- */

static void lost(struct session *s, const char *why)
{
	client_close(s->stats);
	s->stats = NULL;
	snprintf(s->top.trouble, sizeof(s->top.trouble), "unreachable, trying again: %s (%s)", why,
		 ctl_place(s->ctl));
}

static json_t *parameters(const struct session *s)
{
	return json_pack("{s:o*, s:i}", "listeners", ctl_words(s->ctl), "interval_ms",
			 (int)s->top.interval_ms);
}

static void connect_again(struct session *s)
{
	int rc = client_open(&s->ctl->target, &s->stats);

	s->active_ns = clock_ns();
	if (rc == 0)
		rc = client_send(s->stats, "org.nbserved.Control.GetStats", parameters(s), true);
	if (rc < 0)
		lost(s, strerror(-rc));
}

/* The reason for a refusal: the message, or why a bridge does not reach the daemon, or else the
 * error's name; NULL: it was not refused.  Valid until the next call. */
static const char *refusal(const json_t *error, const json_t *reply)
{
	const char *message = field_text(reply, "message");
	int number = (int)field_uint(reply, "errno");
	static char text[TOP_TEXT];

	if (!error || *message)
		return error ? message : NULL;
	snprintf(text, sizeof(text), "the daemon there: %s",
		 number == ETIMEDOUT ? "No answer" : strerror(number));
	return number ? text : json_string_value(error);
}

/* Handles received documents; one may end the connection.  0 or -errno. */
static int take(struct session *s)
{
	json_t *reply, *error;
	bool continues;
	int rc = 0;

	while (s->stats && (rc = client_receive(s->stats, 0, &reply, &error, &continues)) == 0) {
		const char *refused = refusal(error, reply);

		s->active_ns = clock_ns();
		if (refused)
			lost(s, refused);
		else
			top_add(&s->top, reply);
		json_decref(reply);
		json_decref(error);
	}
	return rc == -ETIMEDOUT ? 0 : rc;
}

/* Performs actions that are due. */
static void on_time(struct session *s)
{
	uint64_t silent_ms = (clock_ns() - s->active_ns) / NS_PER_MS;

	if (!s->stats && silent_ms >= RETRY_MS)
		connect_again(s);
	else if (s->stats && silent_ms >= s->top.interval_ms + SILENCE_MS)
		snprintf(s->top.trouble, sizeof(s->top.trouble), "no answer for %llu s (%s)",
			 (unsigned long long)(silent_ms / 1000), ctl_place(s->ctl));
}

/* ---- The terminal ---- */

/* Set by a signal handler: the loop ends and the terminal is restored. */
static volatile sig_atomic_t end_signal;

/* Drops the output that the terminal has not read, each second.  A terminal that does not read, or
 * was stopped by Ctrl-S, blocks curses in write(2), which curses repeats after a signal; so the
 * program could not end. */
static void on_signal(int number)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int error = errno;

	end_signal = number;
	if (poll(&out, 1, 0) == 0) {
		tcflow(STDOUT_FILENO, TCOON);
		tcflush(STDOUT_FILENO, TCOFLUSH);
	}
	alarm(1);
	errno = error;
}

static const int ending_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM };

static void on_resize(int signal)
{
	(void)signal; /* the signal only has to make ppoll() return */
}

/* Sets the handlers.  SIGWINCH is blocked except within ppoll(), so that no new size is missed. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal }, resize = { .sa_handler = on_resize };
	sigset_t blocked;

	for (unsigned i = 0; i < ARRAY_SIZE(ending_signals); i++)
		sigaction(ending_signals[i], &action, NULL);
	sigaction(SIGWINCH, &resize, NULL);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGWINCH);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
}

/* Waits for an event; returns at once if a signal has come before. */
static int wait_for_event(struct pollfd *fds, unsigned count)
{
	struct timespec limit = { .tv_nsec = 250 * NS_PER_MS };
	sigset_t all, before, during;
	int rc;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	during = before;
	sigdelset(&during, SIGWINCH);
	rc = end_signal ? 0 : ppoll(fds, count, &limit, &during);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc < 0 && errno != EINTR ? -errno : 0;
}

static void start_colours(void)
{
	if (!has_colors() || start_color() == ERR)
		return;
	use_default_colors();
	init_pair(STYLE_GOOD, COLOR_GREEN, -1);
	init_pair(STYLE_WARN, COLOR_YELLOW, -1);
	init_pair(STYLE_BAD, COLOR_RED, -1);
}

static SCREEN *open_terminal(bool colour)
{
	SCREEN *screen;

	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return NULL;
	set_escdelay(ESCAPE_MS);
	cbreak();
	noecho();
	nonl();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	if (colour)
		start_colours();
	return screen;
}

static void close_terminal(SCREEN *screen)
{
	endwin();
	delscreen(screen);
}

static attr_t attributes_of(enum style style, bool colour)
{
	if (style >= STYLE_GOOD)
		return colour ? (attr_t)COLOR_PAIR(style) : A_BOLD;
	return style == STYLE_BOLD ? A_BOLD : style == STYLE_DIM ? A_DIM : A_NORMAL;
}

/* Follows the terminal's size, which may change, and ignores LINES and COLUMNS. */
static void follow_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
		return;
	if (size.ws_row != LINES || size.ws_col != COLS)
		resizeterm(size.ws_row, size.ws_col);
}

static void draw(struct session *s)
{
	struct top_screen screen = {
		.width = (unsigned)MAX(COLS, 1),
		.height = (unsigned)MAX(LINES, 1),
		.utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"),
	};

	top_screen_init(&screen, &s->top);
	erase();
	for (unsigned i = 0; i < screen.height; i++) {
		const struct top_line *line = &screen.lines[i];

		attrset(attributes_of(line->style, s->ctl->out.colour && has_colors()));
		if (line->text)
			mvaddstr((int)i, 0, line->text);
	}
	refresh();
	top_screen_fini(&screen);
}

/* Translates a key of curses to one of ours; 0: unknown. */
static int key_of(int key)
{
	static const int keys[][2] = {
		{ KEY_UP, TOP_KEY_UP },         { KEY_DOWN, TOP_KEY_DOWN },
		{ KEY_PPAGE, TOP_KEY_PAGE_UP }, { KEY_NPAGE, TOP_KEY_PAGE_DOWN },
		{ KEY_HOME, TOP_KEY_HOME },     { KEY_END, TOP_KEY_END },
	};

	for (unsigned i = 0; i < ARRAY_SIZE(keys); i++)
		if (key == keys[i][0])
			return keys[i][1];
	return key < 0x80 ? key : 0;
}

/* Handles all keys typed so far; false: quit.  Ignores the KEY_RESIZE that resizeterm() leaves. */
static bool read_keys(struct session *s)
{
	int key;

	while ((key = getch()) != ERR)
		if (!top_key(&s->top, key_of(key)))
			return false;
	return true;
}

/* ---- The loop ---- */

/* One round: waits for a key, a message or the next second, and handles it; false: quit. */
static bool turn(struct session *s)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = s->stats ? client_fd(s->stats) : -1, .events = POLLIN },
	};
	int rc;

	if (wait_for_event(fds, ARRAY_SIZE(fds)) < 0)
		return false;
	if (end_signal || (fds[0].revents & (POLLERR | POLLHUP | POLLNVAL)))
		return false;
	if (fds[1].revents && (rc = take(s)) < 0)
		lost(s, rc == -ECONNRESET ? "it closed the connection" : strerror(-rc));
	on_time(s);
	return read_keys(s);
}

static int run_screen(struct session *s)
{
	const char *term = getenv("TERM");
	SCREEN *screen;

	catch_signals();
	screen = open_terminal(s->ctl->out.colour);
	if (!screen)
		return ctl_usage(s->ctl, "this kind of terminal is not known: TERM=%s",
				 term ? term : "");
	connect_again(s);
	do {
		follow_size();
		draw(s);
	} while (turn(s));
	close_terminal(screen);
	return CTL_DONE;
}

/* ---- The command ---- */

static int sort_by(struct ctl *ctl, struct top *top, const char *name)
{
	const char *names[TOP_COLUMNS];

	for (unsigned i = 0; i < TOP_COLUMNS; i++) {
		names[i] = top_columns[i].name;
		if (strcmp(name, names[i]))
			continue;
		top->sort = (enum top_column)i;
		return CTL_DONE;
	}
	return ctl_unknown(ctl, "--sort: cannot sort by", name, names, ARRAY_SIZE(names));
}

static int run_top(struct ctl *ctl)
{
	const char *interval = ctl->values[VALUE_INTERVAL], *sort = ctl->values[VALUE_SORT];
	unsigned interval_ms = INTERVAL_MS;
	struct session s = { .ctl = ctl };
	json_t *first;
	int rc;

	if (interval && ctl_interval(ctl, "interval", interval, CTL_STREAM_MIN_MS, &interval_ms))
		return CTL_USAGE;
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return ctl_usage(ctl, "top needs a terminal; elsewhere: `nbctl stats --watch`");
	top_init(&s.top, interval_ms);
	rc = sort ? sort_by(ctl, &s.top, sort) : CTL_DONE;
	if (rc == CTL_DONE)
		rc = ctl_call(ctl, "GetStats", parameters(&s), &first);
	if (rc == CTL_DONE) {
		top_add(&s.top, first);
		json_decref(first);
		/* Ssh must not ask for a password on the screen when it connects again. */
		ctl->target.batch = true;
		rc = run_screen(&s);
	}
	client_close(s.stats);
	top_fini(&s.top);
	return rc;
}

const struct command command_top = {
	.name = "top",
	.arguments = "[LISTENER...]",
	.summary = "rates, latency and CPU time of each listener, live, on the whole screen",
	.details =
		"A row for each listener: connections, operations and bytes per second, latency,\n"
		"CPU time, system calls and turns per operation; the last line has the keys.\n"
		"When the daemon is restarted, top waits for it and continues.\n",
	.example = "nbctl top\nnbctl top echo-epoll echo-uring --interval 0.5 --sort cpu-op",
	.options = {
		[VALUE_INTERVAL] = { "interval", OPTION_VALUE, "SECONDS", "how often (default: 1)" },
		[VALUE_SORT] = { "sort", OPTION_VALUE, "COLUMN",
				 "listener, engine, open, ops, bytes, p50, p99, cpu-op, "
				 "calls, turn, cpu" },
	},
	.words_max = 256,
	.json_instead = "nbctl stats --watch --json",
	.run = run_top,
};
