/* The key of engine `epoll`. */
#include "epoll.h"
#include "util.h"

struct epoll_options {
	uint64_t mode; /* enum epoll_mode */
};

/* By enum epoll_mode. */
static const char *const epoll_mode_words[] = { "level", "edge", "oneshot", "per-operation", NULL };

static const struct key epoll_keys[] = {
	{ "epoll-mode", "level",
	  "how it is asked which sockets are ready; all but level are for comparison",
	  KEY_FIELD(struct epoll_options, mode), KEY_CHOICE, .words = epoll_mode_words,
	  .streams = true },
};
const struct key_table epoll_key_table = KEY_TABLE(epoll_keys, struct epoll_options);

enum epoll_mode epoll_mode(const struct worker_options *options)
{
	const struct epoll_options *o = options_of(options, &epoll_key_table);

	return (enum epoll_mode)o->mode;
}
