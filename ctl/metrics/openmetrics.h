/* A GetStats document as OpenMetrics text, which Prometheus reads.  Pure. */
#pragma once
#include <jansson.h>
#include <stdio.h>

/* https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md */
void openmetrics_write(FILE *to, const json_t *stats);
