/* When a worker spins before it sleeps: core/spin.c. */
#include "spin.h"
#include "unit.h"
#include "util.h"

/* A worker that waits for input. */
struct spinner {
	struct spin spin;
	uint64_t now_ns, vain_ns;
	unsigned spins, vain;
};

static struct spinner spinner_of(uint64_t busy_poll_ns)
{
	struct spinner s = { .now_ns = NS_PER_S };

	spin_init(&s.spin, busy_poll_ns);
	return s;
}

/* `count` waits of us microseconds each. */
static void waits(struct spinner *s, unsigned us, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint64_t ns = spin_begin(&s->spin, s->now_ns);
		bool in_vain;

		s->now_ns += (uint64_t)us * NS_PER_US;
		in_vain = spin_end(&s->spin, s->now_ns);
		s->spins += ns > 0;
		s->vain += in_vain;
		s->vain_ns += in_vain ? ns : 0;
	}
}

/* A worker of `auto` that has used its credit up, and what it did from there on. */
static struct spinner without_credit(void)
{
	struct spinner s = spinner_of(UINT64_MAX);

	waits(&s, 1000 * 1000, 100);
	assert_int_equal(s.spins, SPIN_CREDIT_NS / SPIN_AUTO_NS);
	assert_int_equal(s.vain, s.spins);
	return (struct spinner){ .spin = s.spin, .now_ns = s.now_ns };
}

TEST(a_fixed_time_is_spun_in_each_wait)
{
	struct spinner s = spinner_of(20 * NS_PER_US), none = spinner_of(0);

	waits(&s, 1000, 100);
	assert_int_equal(s.spins, 100);
	assert_int_equal(s.vain_ns, 100 * 20 * NS_PER_US);
	waits(&none, 1, 100);
	assert_int_equal(none.spins, 0);
}

TEST(a_client_that_asks_at_once_is_spun_for)
{
	struct spinner s = without_credit();

	waits(&s, 60, 200); /* asleep, and what waking takes is in it */
	assert_in_range(s.spins, 1, 2);
	waits(&s, 20, 200);
	s.spins = s.vain = 0;
	waits(&s, 5, 1000);
	assert_int_equal(s.spins, 1000);
	assert_int_equal(s.vain, 0);
}

TEST(a_client_that_is_silent_for_long_costs_no_spin)
{
	struct spinner s = without_credit();

	waits(&s, 101, 10000);
	assert_int_equal(s.spins, 0);
}

/* 10,000 requests a second. */
TEST(a_slow_client_costs_a_percent_of_a_cpu_in_spins)
{
	struct spinner s = without_credit();
	uint64_t begun_ns = s.now_ns;

	waits(&s, 85, 10000);
	assert_in_range(s.vain_ns, 1, (s.now_ns - begun_ns) / 100);
}

TEST(late_requests_of_a_quick_client_change_nothing)
{
	struct spinner s = spinner_of(UINT64_MAX);

	for (unsigned i = 0; i < 1000; i++) {
		waits(&s, 3000, 1);
		waits(&s, 5, 100);
	}
	assert_int_equal(s.spins, 101 * 1000);
	assert_int_equal(s.vain, 1000);
}

TEST(spins_in_vain_are_a_bounded_share_of_the_time)
{
	for (unsigned paid = 0; paid < 20; paid++)
		for (unsigned us = 0; us <= 50; us += 5) {
			struct spinner s = spinner_of(UINT64_MAX);
			uint64_t begun_ns = s.now_ns;

			for (unsigned i = 0; i < 10000; i++) {
				waits(&s, us, paid);
				waits(&s, 51, 1);
			}
			assert_true(s.vain_ns <=
				    SPIN_CREDIT_NS + (s.now_ns - begun_ns) / SPIN_PAID);
		}
}
