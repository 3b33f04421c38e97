/* Formatting of numbers.  See human.h. */
#include "human.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "util.h"

struct human human_count(uint64_t n)
{
	struct human out = { "" };
	char digits[24];
	int count = snprintf(digits, sizeof(digits), "%" PRIu64, n), used = 0;

	for (int i = 0; i < count; i++) {
		if (i && (count - i) % 3 == 0)
			out.text[used++] = ',';
		out.text[used++] = digits[i];
	}
	return out;
}

struct human human_number(double n)
{
	struct human out;

	/* The limits are where rounding would add a digit. */
	if (n >= 99.95 && n < 1.8e19)
		return human_count((uint64_t)(n + 0.5));
	snprintf(out.text, sizeof(out.text), "%.*f", n >= 9.995 ? 1 : 2, n);
	return out;
}

static struct human scaled(uint64_t n, const char *const *units, unsigned unit_count)
{
	double value = (double)n;
	struct human out;
	unsigned i = 0;

	while (i + 1 < unit_count && value >= 999.5) {
		value /= 1000;
		i++;
	}
	if (i == 0)
		snprintf(out.text, sizeof(out.text), "%" PRIu64 "%s", n, units[0]);
	else
		snprintf(out.text, sizeof(out.text), "%.8s%s", human_number(value).text, units[i]);
	return out;
}

struct human human_short(uint64_t n)
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P" };

	return n < 100000 ? human_count(n) : scaled(n, units, ARRAY_SIZE(units));
}

struct human human_bytes(uint64_t bytes)
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB", " PB" };

	return scaled(bytes, units, ARRAY_SIZE(units));
}

struct human human_time(uint64_t ns)
{
	uint64_t seconds = ns / NS_PER_S;
	struct human out;

	if (ns == 0)
		strcpy(out.text, "0");
	else if (ns < NS_PER_MS)
		snprintf(out.text, sizeof(out.text), "%.8sus", human_us(ns).text);
	else if (ns < NS_PER_S)
		snprintf(out.text, sizeof(out.text), "%.8sms",
			 human_number((double)ns / NS_PER_MS).text);
	else if (seconds < 60)
		snprintf(out.text, sizeof(out.text), "%.8ss",
			 human_number((double)ns / NS_PER_S).text);
	else if (seconds < 3600)
		snprintf(out.text, sizeof(out.text), "%um%02us", (unsigned)(seconds / 60),
			 (unsigned)(seconds % 60));
	else if (seconds < 24 * 3600)
		snprintf(out.text, sizeof(out.text), "%uh%02um", (unsigned)(seconds / 3600),
			 (unsigned)(seconds / 60 % 60));
	else
		snprintf(out.text, sizeof(out.text), "%" PRIu64 "d%uh", seconds / 86400,
			 (unsigned)(seconds / 3600 % 24));
	return out;
}

struct human human_us(uint64_t ns)
{
	return human_number((double)ns / NS_PER_US);
}

struct human human_percent(double share)
{
	struct human out;

	snprintf(out.text, sizeof(out.text), "%.*f", share < 0.0995 ? 1 : 0, share * 100);
	return out;
}
