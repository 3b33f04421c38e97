/* Figures of the generator's CPU time and of the whole machine's, as numbers of CPUs.  NaN:
 * unknown. */
#pragma once
#include "measure.h"

double figure_generator_share(const struct measure *row);
double figure_generator_cpu(const struct measure *row);
double figure_softirq_share(const struct measure *row);
double figure_idle_share(const struct measure *row);
double figure_steal_share(const struct measure *row);
double figure_pressure_share(const struct measure *row);
double figure_other_share(const struct measure *row);
double figure_unattributed_share(const struct measure *row);
double figure_link_received(const struct measure *row);
double figure_link_sent(const struct measure *row);
double figure_retransmitted(const struct measure *row);
