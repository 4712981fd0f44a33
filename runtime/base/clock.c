#include "runtime/base/clock.h"

#include <stdbool.h>
#include <time.h>

/* Days and dates by arithmetic on the proleptic Gregorian calendar, so that neither TZ nor a lock of libc's is touched.
 */

uint64_t clock_real_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t clock_boot_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static char *clock_digits(char *at, unsigned value, int count)
{
	for (int i = count - 1; i >= 0; i--) {
		at[i] = (char)('0' + value % 10);
		value /= 10;
	}
	return at + count;
}

/* Years are counted from March, so that the leap day is a year's last; 719468 days lie between 0000-03-01 and 1970. */
static void clock_civil(uint64_t days, unsigned *ret_year, unsigned *ret_month, unsigned *ret_day)
{
	uint64_t z = days + 719468;
	uint64_t era = z / 146097;
	unsigned doe = (unsigned)(z - era * 146097);
	unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	unsigned mp = (5 * doy + 2) / 153;

	*ret_day = doy - (153 * mp + 2) / 5 + 1;
	*ret_month = mp < 10 ? mp + 3 : mp - 9;
	*ret_year = (unsigned)(yoe + era * 400) + (*ret_month <= 2);
}

static int64_t clock_days(unsigned year, unsigned month, unsigned day)
{
	int64_t y = (int64_t)year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	unsigned yoe = (unsigned)(y - era * 400);
	unsigned doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
	unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;

	return era * 146097 + (int64_t)doe - 719468;
}

/* Runs for every event: strftime would need gmtime_r, which takes libc's time zone lock. */
void clock_format(uint64_t real_us, char out[CLOCK_TEXT_MAX])
{
	uint64_t secs = real_us / 1000000;
	unsigned in_day = (unsigned)(secs % 86400);
	unsigned year, month, day;
	char *p = out;

	clock_civil(secs / 86400, &year, &month, &day);
	p = clock_digits(p, year, 4);
	*p++ = '-';
	p = clock_digits(p, month, 2);
	*p++ = '-';
	p = clock_digits(p, day, 2);
	*p++ = 'T';
	p = clock_digits(p, in_day / 3600, 2);
	*p++ = ':';
	p = clock_digits(p, in_day / 60 % 60, 2);
	*p++ = ':';
	p = clock_digits(p, in_day % 60, 2);
	*p++ = '.';
	p = clock_digits(p, (unsigned)(real_us % 1000000), 6);
	*p++ = 'Z';
	*p = '\0';
}

/* Exactly `count` digits, at most `max`. */
static bool clock_number(const char **p, int count, unsigned max, unsigned *ret)
{
	unsigned v = 0;

	for (int i = 0; i < count; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		v = v * 10 + (unsigned)(**p - '0');
	}
	if (v > max)
		return false;
	*ret = v;
	return true;
}

static bool clock_char(const char **p, const char *any_of)
{
	for (; *any_of; any_of++) {
		if (**p == *any_of) {
			(*p)++;
			return true;
		}
	}
	return false;
}

static unsigned clock_month_days(unsigned year, unsigned month)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

/* "Z" or "+02:00", in seconds east. */
static bool clock_offset(const char **p, int64_t *ret)
{
	unsigned hours, minutes;
	bool west;

	if (clock_char(p, "Zz")) {
		*ret = 0;
		return true;
	}
	west = **p == '-';
	if (!clock_char(p, "+-") || !clock_number(p, 2, 23, &hours) || !clock_char(p, ":") ||
	    !clock_number(p, 2, 59, &minutes))
		return false;
	*ret = (int64_t)(hours * 3600 + minutes * 60) * (west ? -1 : 1);
	return true;
}

/* Strict: a date that does not exist, or a missing offset, is an error. */
int clock_parse(const char *text, uint64_t *ret_real_us)
{
	const char *p = text;
	unsigned year, month, day, hour, minute, second, micro = 0;
	int64_t offset, secs;

	if (!clock_number(&p, 4, 9999, &year) || !clock_char(&p, "-") || !clock_number(&p, 2, 12, &month) ||
	    !clock_char(&p, "-") || !clock_number(&p, 2, 31, &day) || !clock_char(&p, "Tt ") ||
	    !clock_number(&p, 2, 23, &hour) || !clock_char(&p, ":") || !clock_number(&p, 2, 59, &minute) ||
	    !clock_char(&p, ":") || !clock_number(&p, 2, 60, &second))
		return -1;
	if (!month || !day || day > clock_month_days(year, month))
		return -1;
	if (clock_char(&p, ".")) {
		unsigned scale = 100000;

		if (*p < '0' || *p > '9')
			return -1;
		for (; *p >= '0' && *p <= '9'; p++, scale /= 10)
			micro += (unsigned)(*p - '0') * scale;
	}
	if (!clock_offset(&p, &offset) || *p)
		return -1;
	secs = clock_days(year, month, day) * 86400 + (int64_t)(hour * 3600 + minute * 60 + second) - offset;
	if (secs < 0)
		return -1;
	*ret_real_us = (uint64_t)secs * 1000000u + micro;
	return 0;
}
