/* Characters that stand for numbers.  See top_chart.h. */
#include "top_chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"
#include "text.h"
#include "util.h"

/* ---- Sparklines ---- */

enum { SPARK_LEVELS = 8 };

static const char *const spark_utf8[SPARK_LEVELS] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const spark_ascii[SPARK_LEVELS] = { "_", ".", ":", "-", "=", "+", "*", "#" };

/* The smallest value with full height; 0: the largest value of the series.  CPU use: 10 % of a CPU,
 * so that the noise of an idle thread (below 0.7 %) is a flat line. */
static const double full_scales[TOP_SERIES] = { [TOP_SERIES_CPU] = 0.1 };

/* The mean of the known values from tick `begin` on; NAN: none is known. */
static double group_mean(const struct top *top, const char *listener, enum top_series series,
			 uint64_t begin, unsigned group)
{
	double sum = 0;
	unsigned count = 0;

	for (uint64_t tick = begin; tick < begin + group && tick < top->shown_tick; tick++) {
		float value = top_past(top, listener, series, tick);

		if (isnan(value))
			continue;
		sum += value;
		count++;
	}
	return count ? sum / count : NAN;
}

unsigned top_spark_group(const struct top *top, unsigned width, unsigned ticks)
{
	unsigned known = (unsigned)MIN(top->shown_tick, ticks);

	return known > width ? (known + width - 1) / width : 1;
}

char *top_sparkline(const struct top *top, const char *listener, enum top_series series,
		    unsigned width, unsigned group, bool utf8)
{
	uint64_t last = top->shown_tick ? (top->shown_tick - 1) / group : 0;
	double *means = must(calloc(width + 1, sizeof(*means))), max = full_scales[series];
	char *text;
	FILE *to = text_open(&text);

	for (unsigned i = 0; i < width; i++) {
		bool early = last + 1 + i < width;

		means[i] = early ? NAN
				 : group_mean(top, listener, series, (last + 1 + i - width) * group,
					      group);
		max = fmax(max, means[i]);
	}
	for (unsigned i = 0; i < width; i++) {
		double level = max > 0 ? means[i] / max * (SPARK_LEVELS - 1) : 0;

		/* A value above 0 shows at least the lowest bar, unless the series has
		 * a fixed scale. */
		level = full_scales[series] > 0 ? round(level) : ceil(level);
		fputs(isnan(means[i]) ? " "
		      : utf8          ? spark_utf8[(unsigned)level]
				      : spark_ascii[(unsigned)level],
		      to);
	}
	free(means);
	fclose(to);
	return text;
}

/* ---- Bars ---- */

char *top_bar(double share, unsigned width, bool utf8)
{
	static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	double columns = fmin(fmax(share, 0), 1) * width;
	unsigned eighths = (unsigned)lround(columns * 8);
	char *text;
	FILE *to = text_open(&text);

	if (!utf8)
		eighths = (unsigned)lround(columns) * 8;
	/* A value above 0 shows at least the narrowest bar. */
	if (share > 0 && eighths == 0)
		eighths = utf8 ? 1 : 8;
	for (unsigned i = 0; i < eighths / 8; i++)
		fputs(utf8 ? "█" : "#", to);
	fputs(parts[eighths % 8], to);
	fclose(to);
	return text;
}

/* ---- Bins ---- */

/* Steps within a power of ten, finest first. */
static const struct {
	unsigned count, steps[6];
} scales[] = {
	{ 6, { 10, 15, 20, 30, 50, 70 } },
	{ 3, { 10, 20, 50 } },
	{ 2, { 10, 30 } },
	{ 1, { 10 } },
};

/* The upper bounds that a scale has: 10, 15, ... 100, 150, ... ns. */
static uint64_t scale_bound(unsigned scale, unsigned index)
{
	uint64_t bound = scales[scale].steps[index % scales[scale].count];

	for (unsigned i = index / scales[scale].count; i > 0; i--)
		bound *= 10;
	return bound;
}

/* top_bins() for one scale, with `merge` of its bins joined; 0: more than `max` bins are needed. */
static unsigned divide(const struct histogram_sum *h, struct top_bin *bins, unsigned max,
		       unsigned scale, unsigned merge)
{
	unsigned index = 0, count = 0;
	uint64_t bound = scale_bound(scale, merge - 1), before = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (h->buckets[i] == 0)
			continue;
		while (bound < histogram_bucket_max(i)) {
			before = bound;
			bound = scale_bound(scale, (++index + 1) * merge - 1);
			if (count == 0)
				continue;
			if (count == max)
				return 0;
			bins[count++] = (struct top_bin){ before, bound, 0 };
		}
		if (count == 0)
			bins[count++] = (struct top_bin){ before, bound, 0 };
		bins[count - 1].count += h->buckets[i];
	}
	return count;
}

unsigned top_bins(const struct histogram_sum *h, struct top_bin *bins, unsigned max)
{
	unsigned count, merge = 1;

	if (h->count == 0 || max == 0)
		return 0;
	for (unsigned scale = 0; scale < ARRAY_SIZE(scales); scale++) {
		count = divide(h, bins, max, scale, 1);
		if (count)
			return count;
	}
	do {
		count = divide(h, bins, max, ARRAY_SIZE(scales) - 1, ++merge);
	} while (count == 0);
	return count;
}
