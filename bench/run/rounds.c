/* See rounds.h. */
#include "rounds.h"

#include <math.h>
#include <stdlib.h>

#include "ctl.h"
#include "human.h"
#include "result.h"
#include "siphash.h"
#include "text.h"
#include "util.h"

/* Rounds before the widths are looked at: earlier looks make more errors. */
enum { FIRST_LOOK = 12 };

void rounds_begin(struct rounds *r)
{
	struct siphash_key random;

	if (!r->seeded) {
		if (siphash_key_init(&random) < 0)
			abort();
		r->seed = random.words[0] >> 32; /* short enough to be typed again */
		r->seeded = true;
	}
	r->start_ns = clock_ns();
	r->half_width = NAN;
	r->next_look = FIRST_LOOK;
	r->most = r->most ? r->most : ROUNDS_MAX;
}

static unsigned least_for(unsigned comparisons)
{
	return MAX(result_least_rounds(MAX(comparisons, 1U)), (unsigned)FIRST_LOOK);
}

/* Fewest rounds that end by themselves, or by the time. */
static unsigned least_rounds(const struct rounds *r)
{
	return least_for(r->comparisons);
}

void rounds_order(const struct rounds *r, unsigned round, unsigned count, unsigned *ret_order)
{
	struct siphash_key key = { { r->seed, round / 2 } };

	for (unsigned i = 0; i < count; i++) {
		uint64_t place = i;
		unsigned other = (unsigned)(siphash(&key, &place, 1) % (i + 1));

		ret_order[i] = ret_order[other];
		ret_order[other] = i;
	}
	for (unsigned i = 0; round % 2 && i < count / 2; i++) {
		unsigned kept = ret_order[i];

		ret_order[i] = ret_order[count - 1 - i];
		ret_order[count - 1 - i] = kept;
	}
}

/* The half width at which rounds end: half of the tolerance.  An interval as wide as the whole
 * tolerance lies within it only if its estimate is exactly 0, so hardly any pair of equal rows
 * would be found to be the same. */
static double width_wanted(double within)
{
	return expm1(log1p(within > 0 ? within : WITHIN_DEFAULT) / 2);
}

void rounds_foretell(const struct rounds *r, unsigned comparisons, unsigned visits,
		     uint64_t visit_ns)
{
	unsigned least = least_for(comparisons);
	double visit_s = (double)visit_ns / NS_PER_S, limit_s = (double)r->time_ns / NS_PER_S;
	double least_s = visit_s * visits * least;

	if (!r->repeat && comparisons && least_s > limit_s)
		ctl_warn(
			"a visit takes %.2g s: the least %u rounds of %u visits will take %.0f s "
			"or more, not %g s (--time); they would fit if COMMAND took less than %.2g s",
			visit_s, least, visits, least_s, limit_s, limit_s / least / visits);
}

bool rounds_enough(struct rounds *r, const struct measures *m)
{
	unsigned least = least_rounds(r);
	bool over;

	r->done++;
	r->took_ns = clock_ns() - r->start_ns;
	if (r->repeat)
		return r->done >= r->repeat;
	if (r->comparisons == 0)
		return r->done >= r->alone;
	over = r->done >= least && (r->took_ns >= r->time_ns || r->done >= r->most);
	if (!over && r->done < r->next_look)
		return false;
	/* A look takes longer the more rounds there are: so later looks are farther apart. */
	r->next_look = r->done + MAX(2U, r->done / 20 * 2);
	r->half_width = result_width(m);
	return over || (r->done >= least && r->half_width <= width_wanted(m->within));
}

char *rounds_text(const struct rounds *r, double within)
{
	struct human took = human_time(r->took_ns), width = human_percent(r->half_width);

	if (isnan(r->half_width))
		return NULL;
	if (r->half_width <= width_wanted(within))
		return text_new("%u rounds in %s: no interval is wider than \xc2\xb1%s %%.",
				r->done, took.text, width.text);
	return text_new("%u rounds in %s, %s.", r->done, took.text,
			r->done < r->most ? "the limit of --time" : "the most that are made");
}
