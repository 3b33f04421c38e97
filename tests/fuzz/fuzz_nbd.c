/* Fuzzes a whole NBD session: see session.h. */
#include "session.h"

extern const struct service service_nbd;

static uint64_t session_run(struct session *s, const uint8_t *data, size_t bytes, size_t piece)
{
	struct conn *c;

	session_init(s, &service_nbd, SESSION_EXPORTS);
	c = session_connect(s);
	session_input(s, c, data, bytes, piece);
	if (s->queue)
		conn_eof(c);
	by_hand_turns(&s->worker);
	assert(!s->queue);
	session_fini(s);
	return s->heard;
}

/* The first byte says how long the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct session s;

	if (bytes == 0)
		return 0;
	/* What is done in slices ends with the time of a turn: after an interruption by other
	 * processes the replies may come in another order, so a difference has to come again. */
	for (unsigned attempt = 1;; attempt++) {
		uint64_t whole = session_run(&s, data + 1, bytes - 1, SIZE_MAX);

		if (session_run(&s, data + 1, bytes - 1, (size_t)data[0] % 64 + 1) == whole)
			return 0;
		assert(attempt < 3);
	}
}
