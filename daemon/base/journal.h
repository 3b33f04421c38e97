/* Messages for journald (systemd's JOURNAL_NATIVE_PROTOCOL), without waiting for it for long:
 * sd_journal_send() blocks for as long as its queue is full, for ever when it has stopped.  Any
 * thread. */
#pragma once

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

struct journal_field {
	const char *name, *value; /* of any bytes; NULL: left out */
};

/* path: JOURNAL_SOCKET.  Before other threads are started.  0 or -errno. */
int journal_open(const char *path);

/* At most JOURNAL_FIELDS_MAX of them, JOURNAL_BYTES_MAX with their names: what is beyond is cut
 * off. A message for which a full queue has no room soon is lost; while that is so others do not
 * wait. When journald reads again it is told how many were. */
enum { JOURNAL_FIELDS_MAX = 8, JOURNAL_BYTES_MAX = 2048 };
void journal_send(const struct journal_field *fields, unsigned count);
