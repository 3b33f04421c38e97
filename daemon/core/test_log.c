/* The last tests of a listener.  See test_log.h. */
#include "test_log.h"

#include <stdlib.h>
#include <time.h>

#include "conn.h"

void test_log_init(struct test_log *log)
{
	pthread_mutex_init(&log->lock, NULL);
}

void test_log_fini(struct test_log *log)
{
	pthread_mutex_destroy(&log->lock);
}

struct test_record *test_record_new(const struct conn *c)
{
	struct test_record *r = calloc(1, sizeof(*r));

	if (r)
		conn_peer(c, r->peer);
	return r;
}

void test_log_add(struct test_log *log, struct test_record **record)
{
	struct test_record *r = *record;
	struct timespec now;

	if (!r)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	r->ended_ns = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
	pthread_mutex_lock(&log->lock);
	log->records[log->count++ % TEST_LOG_MAX] = *r;
	pthread_mutex_unlock(&log->lock);
	free(r);
	*record = NULL;
}

unsigned test_log_copy(struct test_log *log, struct test_record *ret_records, unsigned max)
{
	unsigned count;

	pthread_mutex_lock(&log->lock);
	count = (unsigned)MIN(MIN(log->count, (uint64_t)TEST_LOG_MAX), (uint64_t)max);
	for (unsigned i = 0; i < count; i++)
		ret_records[i] = log->records[(log->count - 1 - i) % TEST_LOG_MAX];
	pthread_mutex_unlock(&log->lock);
	return count;
}
