/* Numbers by chance, the same in every run: state_of_chance is where they begin. */
#pragma once
#include <math.h>
#include <stdint.h>

static uint64_t state_of_chance;

static inline double uniform(void)
{
	state_of_chance = state_of_chance * 6364136223846793005U + 1442695040888963407U;
	return ((double)(state_of_chance >> 11) + 0.5) / 9007199254740992.0;
}

static inline double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}
