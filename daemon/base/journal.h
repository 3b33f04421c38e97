/* Messages for journald (systemd's JOURNAL_NATIVE_PROTOCOL), with bounded waiting:
 * sd_journal_send() blocks while journald's queue is full, for ever if journald
 * has stopped.  Any thread. */
#pragma once

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

struct journal_field {
	const char *name, *value; /* value may hold any bytes; NULL: the field is left out */
};

/* Connects to path (JOURNAL_SOCKET), before other threads are started.  0 or -errno. */
int journal_open(const char *path);

/* Sends a message of at most JOURNAL_FIELDS_MAX fields and JOURNAL_BYTES_MAX bytes including
 * names; the rest is cut off.  If the queue is full, waits briefly, then drops the message;
 * until there is room again, further messages are dropped without waiting.  Then a message
 * reports how many were lost. */
enum { JOURNAL_FIELDS_MAX = 8, JOURNAL_BYTES_MAX = 2048 };
void journal_send(const struct journal_field *fields, unsigned count);
