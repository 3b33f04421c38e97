/* Messages for journald.  State: the socket, and the number of messages lost.  See journal.h. */
#include "journal.h"

#include <endian.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "util.h"

enum { JOURNAL_WAIT_US = 100 * 1000 }; /* the longest wait for a busy journald to read */

static int journal_fd = -1;
static struct sockaddr_un journal_address = { .sun_family = AF_UNIX };
static _Atomic bool journal_full; /* the last message did not fit into the queue */
static _Atomic unsigned journal_lost;

struct datagram {
	char bytes[JOURNAL_BYTES_MAX];
	size_t length;
};

int journal_open(const char *path)
{
	static const struct timeval wait = { .tv_usec = JOURNAL_WAIT_US };
	int fd;

	if (strlen(path) >= sizeof(journal_address.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		return -error;
	}
	strcpy(journal_address.sun_path, path);
	if (journal_fd >= 0)
		close(journal_fd);
	journal_fd = fd;
	return 0;
}

/* Adds a field in the binary form, whose value may hold any bytes: name, newline, length, value. */
static void add_field(struct datagram *d, const struct journal_field *field)
{
	size_t name = strlen(field->name), value = strlen(field->value);
	size_t room = sizeof(d->bytes) - d->length, around = name + 2 + sizeof(uint64_t);
	char *to = d->bytes + d->length;
	uint64_t length;

	if (around > room)
		return;
	value = MIN(value, room - around);
	length = htole64(value);
	to = mempcpy(to, field->name, name);
	*to++ = '\n';
	to = mempcpy(to, &length, sizeof(length));
	to = mempcpy(to, field->value, value);
	*to = '\n';
	d->length += around + value;
}

/* 0 or -errno; -EAGAIN: the queue is full. */
static int send_fields(const struct journal_field *fields, unsigned count, int flags)
{
	struct datagram d = { .length = 0 };

	for (unsigned i = 0; i < MIN(count, (unsigned)JOURNAL_FIELDS_MAX); i++)
		if (fields[i].value)
			add_field(&d, &fields[i]);
	if (sendto(journal_fd, d.bytes, d.length, flags | MSG_NOSIGNAL,
		   (const struct sockaddr *)&journal_address, sizeof(journal_address)) < 0)
		return -errno;
	return 0;
}

/* Reports the number of lost messages, ahead of the next message. */
static int send_lost(unsigned lost)
{
	char text[64], priority[4];
	const struct journal_field fields[] = { { "MESSAGE", text }, { "PRIORITY", priority } };

	snprintf(text, sizeof(text), "%u message%s lost: journald did not read", lost,
		 plural(lost));
	snprintf(priority, sizeof(priority), "%d", LOG_WARNING);
	return send_fields(fields, ARRAY_SIZE(fields), MSG_DONTWAIT);
}

/* Any thread.  Only the first message that finds the queue full waits (SO_SNDTIMEO); while it stays
 * full each further one costs one call. */
void journal_send(const struct journal_field *fields, unsigned count)
{
	unsigned lost = atomic_exchange(&journal_lost, 0);
	int rc = lost > 0 ? send_lost(lost) : 0;

	if (rc < 0) {
		atomic_fetch_add(&journal_lost, lost + 1);
		return;
	}
	rc = send_fields(fields, count, atomic_load(&journal_full) ? MSG_DONTWAIT : 0);
	atomic_store(&journal_full, rc == -EAGAIN);
	if (rc < 0)
		atomic_fetch_add(&journal_lost, 1);
}
