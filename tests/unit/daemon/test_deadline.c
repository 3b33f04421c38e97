/* core/deadline.c beside a plain list of timers. */
#include "deadline.h"
#include "unit.h"
#include "util.h"

enum { TIMERS = 500, STEPS = 400 * 1000 };
#define TICK (UINT64_C(1) << DEADLINE_TICK_BITS)

struct plain {
	struct timer timer;
	uint64_t ns; /* 0: not armed */
	unsigned ran;
};

static struct deadlines d;
static struct plain all[TIMERS];
static uint64_t now;
static unsigned seed;

static uint64_t random_below(uint64_t limit)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < 4; i++) /* rand_r() makes 31 bits */
		n = n << 16 ^ (uint64_t)rand_r(&seed);
	return n % limit;
}

/* Of each magnitude alike, from nothing to a month. */
static uint64_t random_span(void)
{
	return random_below(UINT64_C(1) << (1 + random_below(51)));
}

static void arm(struct plain *p, uint64_t ns)
{
	deadline_arm(&d, &p->timer, ns, now - random_below(5 * TICK)); /* a coarse clock */
	if (!p->ns || ns < p->ns)
		p->ns = ns;
}

/* Some timers arm themselves or others, or drop others. */
static void due(struct timer *t, uint64_t now_ns)
{
	struct plain *p = (struct plain *)t, *other = &all[random_below(TIMERS)];

	assert_int_equal(now_ns, now);
	assert_true(p->ns > 0 && p->ns == t->ns && p->ns <= now);
	assert_false(deadline_is_armed(t));
	p->ns = 0;
	p->ran++;
	if (random_below(3) == 0)
		arm(p, now + 1 + random_span());
	if (random_below(10) == 0)
		arm(other, now + 1 + random_span());
	if (random_below(10) == 0) {
		deadline_drop(&d, &other->timer);
		other->ns = 0;
	}
}

/* Every timer that is due has run, and a sleep until wake_ns misses none. */
static void check(bool all_ran)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < TIMERS; i++) {
		assert_int_equal(deadline_is_armed(&all[i].timer), all[i].ns > 0);
		if (all[i].ns)
			first = MIN(first, all[i].ns);
	}
	if (first == UINT64_MAX) {
		assert_int_equal(d.wake_ns, 0);
		return;
	}
	assert_in_range(d.wake_ns, 1, MAX(first + TICK - 1, now));
	if (all_ran)
		assert_true(first + TICK > now && d.wake_ns > now);
}

static void begin(void)
{
	memset(&d, 0, sizeof(d));
	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < TIMERS; i++)
		all[i].timer.due = due;
	now = TICK * 1000 + random_span();
}

static void run_and_check(unsigned max)
{
	unsigned before = 0, ran = 0;

	for (unsigned i = 0; i < TIMERS; i++)
		before += all[i].ran;
	deadlines_run(&d, now, max);
	for (unsigned i = 0; i < TIMERS; i++)
		ran += all[i].ran;
	assert_in_range(ran - before, 0, max);
	check(max == UINT32_MAX);
}

TEST(random_steps_are_as_with_a_plain_list)
{
	for (seed = 1; seed <= 10; seed++) {
		unsigned ran = 0;

		begin();
		for (unsigned step = 0; step < STEPS / 10; step++) {
			struct plain *p = &all[random_below(TIMERS)];
			uint64_t ns;

			switch (random_below(8)) {
			case 0:
				deadline_drop(&d, &p->timer);
				p->ns = 0;
				break;
			case 1: /* sleeps, no longer than it may */
				ns = d.wake_ns ? d.wake_ns - random_below(2) : 0;
				now = MAX(now, ns);
				run_and_check(random_below(2) ? UINT32_MAX
							      : (unsigned)random_below(20));
				break;
			case 2: /* is late */
				now += random_span() >> random_below(20);
				run_and_check(UINT32_MAX);
				break;
			case 3: /* has passed already */
				arm(p, 1 + random_below(now));
				break;
			default:
				arm(p, now + random_span());
			}
			if (step % 16 == 0)
				check(false);
		}
		for (unsigned i = 0; i < TIMERS; i++)
			ran += all[i].ran;
		assert_true(ran > 1000);
	}
}

static void nothing(struct timer *t, uint64_t now_ns)
{
	(void)t, (void)now_ns;
	all[0].ran++;
}

/* Thousands of timers with the same deadline must not delay a turn. */
TEST(a_run_ends_after_its_limit_of_timers)
{
	unsigned runs = 0;

	begin();
	for (unsigned i = 0; i < TIMERS; i++) {
		all[i].timer.due = nothing;
		deadline_arm(&d, &all[i].timer, now + 10 * TICK, now);
	}
	now += 11 * TICK;
	for (; d.wake_ns; runs++) {
		assert_true(d.wake_ns <= now);
		deadlines_run(&d, now, 100);
		assert_true(all[0].ran <= 100 * (runs + 1));
	}
	assert_int_equal(all[0].ran, TIMERS);
	assert_in_range(runs, TIMERS / 100, 2 * TIMERS / 100);
}

/* A timer that is postponed at each request stays in its slot. */
TEST(a_later_deadline_moves_nothing)
{
	struct timer before;

	begin();
	deadline_arm(&d, &all[0].timer, now + 100 * TICK, now);
	before = all[0].timer;
	for (unsigned i = 1; i < 50; i++)
		deadline_arm(&d, &all[0].timer, now + (100 + i) * TICK, now + i * TICK);
	assert_memory_equal(&all[0].timer, &before, sizeof(before));
	deadline_drop(&d, &all[0].timer);
	assert_int_equal(d.wake_ns, 0);
}
