/* `nbctl metrics`: the daemon's statistics for Prometheus, over HTTP.
 *
 * Each scrape is served by a process of its own, a few at a time, with a time limit, so that a
 * stalled client blocks nothing else.  Each connects to the daemon again, so a restart of the
 * daemon costs at most one scrape. */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl.h"
#include "openmetrics.h"
#include "parse.h"

#define METRICS_ADDRESS "127.0.0.1:9107"

enum {
	SCRAPES_MAX = 8,     /* scrapes at a time */
	SCRAPE_SECONDS = 12, /* s; time limit of one scrape; that of the daemon's answer is 10 s */
	BACKLOG = 64,
	REQUEST_MAX = 16 * 1024, /* bytes */
};

enum { VALUE_LISTEN };

/* ---- One scrape, in a process of its own ---- */

static bool send_all(int fd, const char *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		data += n;
		bytes -= (size_t)n;
	}
	return true;
}

static void answer(int fd, const char *status, const char *body, size_t bytes)
{
	char head[256];
	int head_bytes = snprintf(head, sizeof(head),
				  "HTTP/1.1 %s\r\n"
				  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
				  "Content-Length: %zu\r\n"
				  "Connection: close\r\n\r\n",
				  status, bytes);

	if (send_all(fd, head, (size_t)head_bytes))
		send_all(fd, body, bytes);
}

/* Answers with the metrics, or with nbctl's error message if the daemon cannot be reached. */
static void answer_metrics(struct ctl *ctl, int fd)
{
	const char *status = "503 Service Unavailable";
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);
	json_t *stats;

	if (!to)
		return;
	/* The messages of ctl_warn() become the body of the answer.  glibc lets a program set
	 * stderr; this process ends after the answer. */
	stderr = to;
	if (ctl_call(ctl, "GetStats", NULL, &stats) == CTL_DONE) {
		status = "200 OK";
		openmetrics_write(to, stats);
		json_decref(stats);
	}
	fclose(to);
	answer(fd, status, text, bytes);
	free(text);
}

/* Closes the connection after reading its remaining input: closing with input unread would reset
 * the connection, and the answer could be lost. */
static void end(int fd)
{
	char data[4096];

	shutdown(fd, SHUT_WR);
	while (recv(fd, data, sizeof(data), 0) > 0)
		;
}

/* Is it the request of a scraper: GET of /metrics, with or without a query? */
static bool is_scrape(const char *request)
{
	static const char wanted[] = "GET /metrics";

	return !strncmp(request, wanted, strlen(wanted)) &&
	       (request[strlen(wanted)] == ' ' || request[strlen(wanted)] == '?');
}

static void scrape(struct ctl *ctl, int fd)
{
	char request[REQUEST_MAX + 1] = "";
	size_t used = 0;

	alarm(SCRAPE_SECONDS);
	/* An empty line ends the request. */
	while (used < REQUEST_MAX && !strstr(request, "\n\r\n") && !strstr(request, "\n\n")) {
		ssize_t n = recv(fd, request + used, REQUEST_MAX - used, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		used += (size_t)n;
		request[used] = '\0';
	}
	if (is_scrape(request))
		answer_metrics(ctl, fd);
	else
		answer(fd, "404 Not Found", "", 0); /* an answer to HEAD has no body */
	end(fd);
}

/* ---- The listening process ---- */

static int listen_at(const char *text, const struct address *address, int *ret_fd)
{
	struct sockaddr_storage sa = address->sa;
	bool ipv6 = sa.ss_family == AF_INET6;
	socklen_t bytes = ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	int fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	char bound[ADDRESS_TEXT_MAX];

	if (ipv6)
		((struct sockaddr_in6 *)&sa)->sin6_port = htons(address->port_first);
	else
		((struct sockaddr_in *)&sa)->sin_port = htons(address->port_first);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&sa, bytes) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &bytes) < 0) {
		ctl_warn("cannot listen on %s: %s", text, strerror(errno));
		if (fd >= 0)
			close(fd);
		return CTL_USAGE;
	}
	*ret_fd = fd;
	printf("http://%s/metrics\n", format_sockaddr(&sa, bound));
	fflush(stdout);
	return CTL_DONE;
}

/* Waits until fewer than SCRAPES_MAX processes are running; returns how many are. */
static unsigned reap(unsigned running)
{
	while (running > 0 && waitpid(-1, NULL, running < SCRAPES_MAX ? WNOHANG : 0) > 0)
		running--;
	return running;
}

static void on_child(int signal)
{
	(void)signal; /* the signal only has to make accept() return */
}

/* Serves for ever; returns only on errors. */
static int serve(struct ctl *ctl, int listening)
{
	struct sigaction child = { .sa_handler = on_child };
	unsigned running = 0;

	/* Without SA_RESTART: accept4() returns when a scrape has ended, so that none
	 * stays a zombie. */
	sigaction(SIGCHLD, &child, NULL);
	for (;;) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		pid_t pid;

		running = reap(running);
		if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
			sleep(1);
		if (fd < 0)
			continue;
		pid = fork();
		if (pid == 0) {
			close(listening);
			scrape(ctl, fd);
			_exit(EXIT_SUCCESS);
		}
		/* If fork() has failed the client sees the connection close, and
		 * scrapes again later. */
		running += pid > 0;
		close(fd);
	}
}

static int run_metrics(struct ctl *ctl)
{
	const char *text = ctl->values[VALUE_LISTEN] ? ctl->values[VALUE_LISTEN] : METRICS_ADDRESS;
	struct address address;
	int fd, rc;

	if (parse_address(text, &address) < 0 || address.port_first != address.port_last)
		return ctl_usage(ctl, "--listen: expected ADDRESS:PORT, got '%s'", text);
	rc = listen_at(text, &address, &fd);
	return rc == CTL_DONE ? serve(ctl, fd) : rc;
}

const struct command command_metrics = {
	.name = "metrics",
	.arguments = "",
	.summary = "an HTTP server for Prometheus, in the foreground",
	.details =
		"GET /metrics returns the output of `nbctl stats --openmetrics`, or 503 while the daemon\n"
		"cannot be reached.  Installed as a service: `systemctl enable --now nbserved-metrics`.\n"
		"Every client that can connect may read: keep it on loopback or behind a firewall.\n",
	.example = "nbctl metrics --listen 127.0.0.1:9107",
	.options = {
		[VALUE_LISTEN] = { "listen", OPTION_VALUE, "ADDRESS",
				   "where (default: " METRICS_ADDRESS "); port 0: any" },
	},
	.json_instead = "nbctl stats --json",
	.run = run_metrics,
};
