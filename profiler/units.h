// units.h: numbers for people: times, bytes, counts and ratios with a unit that fits their size and
// three digits that count. Never an exponent.
#ifndef PROF_UNITS_H
#define PROF_UNITS_H

#include "profiler/stats.h"

// Each writes into buf and returns it. What is not a number, or infinite, is "-".
const char *prof_time_text(char buf[32], double seconds);  // "1.47 us", "24.5 ms", "3.2 h"
const char *prof_bytes_text(char buf[32], double bytes);   // "858 GB"; 2^63: ">= 9.22 EB"
const char *prof_bytes_delta(char buf[32], double bytes);  // "+18.2 kB", "-1.38 MB", "0"
const char *prof_flops_text(char buf[32], double flops);   // "1.25 GFLOP"
const char *prof_count_text(char buf[32], double n);       // 1234567: "1.23M"
const char *prof_ratio_text(char buf[32], double ratio);   // "1.03x", "24.1x", "2410x", "0.0123x"
// With two digits that count, for what is not known better: "~4.7x", "~190x", "~0.27x".
const char *prof_about_ratio(char buf[32], double ratio);
// Of a ratio that is too noisy: its bounds, and whether it is above or below 1 where that is
// certain: "too noisy to say (between 0.67x and 12x)", "faster, by how much is too noisy ...".
const char *prof_noisy_text(char buf[128], prof_interval ratio);
// A part of a whole in percent; 0 of nothing.
double prof_percent(double part, double whole);

#endif
