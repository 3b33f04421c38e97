/* org.nbserved.Host.Serve and Unserve: a daemon on this host for one measurement of `nbbench -H
 * HOST run SPEC`.  It has a control socket of its own, to which the bridge relays calls while it
 * serves.  The bridge owns the process: it ends with Unserve, or with the bridge. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bridge_host.h"
#include "field.h"
#include "guard.h"
#include "process.h"
#include "served.h"
#include "text.h"
#include "util.h"

enum { MESSAGES_BYTES = 16 * 1024 }; /* of the daemon's messages that are kept */

/* The address of nbbench's host, and the address of this host to which its ssh connected; false:
 * sshd did not set SSH_CONNECTION. */
static bool find_ends(char client[64], char server[64])
{
	const char *connection = getenv("SSH_CONNECTION");

	return connection && sscanf(connection, "%63s %*s %63s", client, server) == 2 &&
	       strcmp(client, "UNKNOWN") != 0;
}

/* Completes a spec, unless it has these keys itself: with an address that other hosts reach, and if
 * `allow` with nbbench's host as the only one that may connect. */
static char *complete(const char *spec, bool allow)
{
	char client[64], server[64];
	bool is_ipv6;

	if (!find_ends(client, server))
		return text_new("%s", spec);
	is_ipv6 = strchr(server, ':');
	allow = allow && !strstr(spec, ",allow=");
	if (strstr(spec, ",address="))
		return text_new("%s%s%s", spec, allow ? ",allow=" : "", allow ? client : "");
	return text_new("%s,address=%s%s%s%s%s", spec, is_ipv6 ? "[" : "", server,
			is_ipv6 ? "]" : "", allow ? ",allow=" : "", allow ? client : "");
}

/* A file in memory of a fixed size for the daemon's stderr: further messages are lost. */
static int open_messages(void)
{
	int fd = memfd_create("nbserved", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 &&
	    (ftruncate(fd, MESSAGES_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW) < 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The daemon's own messages, or the reason why it could not be started. */
static json_t *failure(const char *program, int rc, int messages)
{
	char text[MESSAGES_BYTES + 1] = "";
	ssize_t n = messages >= 0 ? pread(messages, text, MESSAGES_BYTES, 0) : 0;
	json_t *made;

	text[MAX(n, (ssize_t)0)] = '\0';
	if (!*text)
		snprintf(text, sizeof(text), "%s: %s", program,
			 rc < 0 && rc != -ECHILD ? strerror(-rc)
						 : "the daemon ended before it served");
	made = json_string(text);
	return json_pack("{s:o}", "message", made ? made : json_string("nbserved failed"));
}

static bool make_directory(struct bridge_daemon *d)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if ((size_t)snprintf(d->directory, sizeof(d->directory), "%s/nbserved-XXXXXX",
			     runtime && *runtime == '/' ? runtime : "/tmp") >=
		    sizeof(d->directory) ||
	    !mkdtemp(d->directory)) {
		d->directory[0] = '\0';
		return false;
	}
	guard_remove(d->directory);
	snprintf(d->socket, sizeof(d->socket), "%s/control.sock", d->directory);
	return true;
}

json_t *bridge_serve(struct bridge_daemon *d, const json_t *parameters)
{
	const char *build = field_text(parameters, "program");
	char *specs[SERVED_SPECS_MAX + 1] = { NULL };
	char *program = *build ? text_new("%s", build) : process_program("nbserved");
	json_t *list = field_get(parameters, "specs"), *spec, *made;
	int messages = open_messages(), rc = -EINVAL;
	size_t i;

	bridge_unserve(d);
	json_array_foreach(list, i, spec)
		if (i < SERVED_SPECS_MAX)
			specs[i] = complete(field_text(spec, ""), field_bool(parameters, "allow"));
	if (specs[0])
		rc = make_directory(d) ? served_start(program, specs, d->socket, messages, &d->pid)
				       : -errno;
	made = rc == 0 ? json_object() : failure(program, rc, messages);
	if (rc != 0)
		bridge_unserve(d);
	if (messages >= 0)
		close(messages);
	for (i = 0; specs[i]; i++)
		free(specs[i]);
	free(program);
	return made;
}

void bridge_unserve(struct bridge_daemon *d)
{
	if (d->pid)
		served_stop(d->pid);
	d->pid = 0;
	if (*d->directory)
		rmdir(d->directory); /* its socket is gone with it */
	d->directory[0] = '\0';
}
