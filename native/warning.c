/* Messages on standard error: warnings by default, more with GPUFRAC_LOG=2, none with GPUFRAC_LOG=0.
 *
 * One write a line, so that lines of several processes do not mix. Callers limit how often a message comes. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpufrac.h"

void report(int level, const char *format, ...) {
    const char *wanted = getenv("GPUFRAC_LOG");
    int most = wanted != NULL && wanted[0] >= '0' && wanted[0] <= '9' ? wanted[0] - '0' : LOG_WARNING;
    if (level > most)
        return;
    int before = errno;
    char line[512];
    int length = snprintf(line, sizeof line, "gpufrac[%d]: ", (int)getpid());
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (more < 0)
        return;
    length += more;
    if ((size_t)length > sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)length);
    (void)written;
    errno = before;
}
