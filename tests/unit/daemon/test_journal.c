/* base/journal.c: messages in journald's format, and a journald that has stopped: a socket of ours
 * that is not read. */
#include <endian.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "journal.h"
#include "unit.h"

enum { MESSAGES = 100 * 1000 }; /* 100 ms for each would be hours */

static int journald;
static struct sockaddr_un address = { .sun_family = AF_UNIX };

static int begin(void **state)
{
	char folder[] = "/tmp/nbserved-journal-XXXXXX";

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder);
	journald = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (bind(journald, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return journal_open(address.sun_path);
}

static int end(void **state)
{
	(void)state;
	close(journald);
	unlink(address.sun_path);
	*strrchr(address.sun_path, '/') = '\0';
	return rmdir(address.sun_path);
}

/* The value of that field of a datagram, to be freed; NULL: it has none. */
static char *field(const char *bytes, size_t length, const char *name)
{
	const char *end_of_all = bytes + length;

	while (bytes < end_of_all) {
		const char *line = memchr(bytes, '\n', (size_t)(end_of_all - bytes));
		uint64_t wire;
		size_t size;

		assert_non_null(line);
		memcpy(&wire, line + 1, sizeof(wire));
		size = (size_t)le64toh(wire);
		assert_true(line + 1 + sizeof(wire) + size < end_of_all);
		assert_int_equal(line[1 + sizeof(wire) + size], '\n');
		if (!strncmp(bytes, name, (size_t)(line - bytes)))
			return strndup(line + 1 + sizeof(wire), size);
		bytes = line + 1 + sizeof(wire) + size + 1;
	}
	return NULL;
}

/* The field of the next message; NULL: no message is left. */
static char *next(const char *name)
{
	char bytes[2 * JOURNAL_BYTES_MAX];
	ssize_t n = recv(journald, bytes, sizeof(bytes), 0);

	return n < 0 ? NULL : field(bytes, (size_t)n, name);
}

static void say(const char *text)
{
	const struct journal_field fields[] = { { "MESSAGE", text }, { "PEER", NULL } };

	journal_send(fields, 2);
}

static void expect_next(const char *wanted)
{
	CLEANUP(free_p) char *text = next("MESSAGE");

	assert_string_equal(text, wanted);
}

TEST(fields_hold_any_bytes)
{
	static const struct journal_field fields[] = { { "PRIORITY", "6" },
						       { "PEER", NULL },
						       { "MESSAGE", "a=b\nc" } };

	journal_send(fields, 3);
	expect_next("a=b\nc");
	journal_send(fields, 3);
	assert_null(next("PEER"));
}

TEST(fields_that_are_too_long_are_cut)
{
	char text[2 * JOURNAL_BYTES_MAX] = "", *got;

	memset(text, 'x', sizeof(text) - 1);
	say(text);
	got = next("MESSAGE");
	assert_in_range(strlen(got), JOURNAL_BYTES_MAX / 2, JOURNAL_BYTES_MAX);
	free(got);
}

TEST(an_unread_journal_is_not_waited_for_and_losses_are_reported)
{
	unsigned received = 0, lost = 0;
	char *text;

	for (unsigned i = 0; i < MESSAGES; i++)
		say("again");
	while ((text = next("MESSAGE"))) {
		assert_string_equal(text, "again");
		free(text);
		received++;
	}
	assert_in_range(received, 1, MESSAGES - 1);
	say("it reads again");
	text = next("MESSAGE");
	assert_int_equal(sscanf(text, "%u messages lost: journald did not read", &lost), 1);
	free(text);
	assert_int_equal(received + lost, MESSAGES);
	expect_next("it reads again");
	say("nothing more was lost");
	expect_next("nothing more was lost");
}

TEST(without_journald_messages_are_counted)
{
	close(journald);
	unlink(address.sun_path);
	say("lost");
	journald = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(journald, (struct sockaddr *)&address, sizeof(address)), 0);
	say("heard");
	expect_next("1 message lost: journald did not read");
	expect_next("heard");
}

ALL_TESTS_WITH(begin, end)
