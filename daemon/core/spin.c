/* Decides whether to spin before a sleep.  See spin.h. */
#include "spin.h"

#include "util.h"

void spin_init(struct spin *s, uint64_t busy_poll_ns)
{
	*s = (struct spin){ .max_ns = busy_poll_ns };
	if (busy_poll_ns == UINT64_MAX)
		*s = (struct spin){ .max_ns = SPIN_AUTO_NS,
				    .adapts = true,
				    .credit_ns = SPIN_CREDIT_NS };
}

uint64_t spin_begin(struct spin *s, uint64_t now_ns)
{
	s->begun_ns = now_ns;
	s->ns = s->adapts && s->credit_ns < s->max_ns ? 0 : s->max_ns;
	return s->ns;
}

bool spin_end(struct spin *s, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - s->begun_ns;
	bool in_vain = s->ns && waited_ns > s->ns;

	if (!s->adapts)
		return in_vain;
	if (in_vain)
		s->credit_ns -= s->ns;
	else if (s->ns)
		s->credit_ns += waited_ns / SPIN_PAID;
	else if (waited_ns <= SPIN_SLEPT_NS)
		s->credit_ns += waited_ns / SPIN_TRY;
	s->credit_ns = MIN(s->credit_ns, (uint64_t)SPIN_CREDIT_NS);
	return in_vain;
}
