/*
 * Set the clock of one process: whoever preloads this reads the wall clock that many seconds off. The seconds stand in
 * the file named by CHAOS_CLOCK, eight bytes, and may change at any time. Time that is waited for passes as ever, which
 * is what libfaketime does not leave alone: with it, sleeps of Python's end with EINVAL.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *off;
static int (*true_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *place = getenv("CHAOS_CLOCK");
    true_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int file = place ? open(place, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seen = mmap(NULL, sizeof *off, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seen != MAP_FAILED)
        off = seen;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!true_clock_gettime)
        begin();
    int failed = true_clock_gettime(clock, now);
    if (!failed && off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *off;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    if (!failed) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
