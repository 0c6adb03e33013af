/* Moves the clocks of one process, by as many milliseconds as stand in the file that CLOCK_FILE
 * names (8 bytes each, as this machine has them) at the moment of each call. The first number is
 * for the time of day: as where somebody sets the clock of a machine. The second one is for the
 * clock that only goes forward and stands still while a machine is suspended. The one that counts
 * that, too, and how long a wait lasts that has begun, stay as they are.
 *
 *     cc -shared -fPIC -o clock.so clock.c -ldl; LD_PRELOAD=./clock.so CLOCK_FILE=… longshore … */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static volatile const long long *offset_ms;
static const int TIME_OF_DAY = 0, RUNNING_TIME = 1;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        abort();
    void *mapped = mmap(NULL, 2 * sizeof *offset_ms, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED)
        abort();
    close(file);
    offset_ms = mapped;
}

static void move(struct timespec *time, long long ms)
{
    long long ns = time->tv_nsec + ms % 1000 * 1000000;
    time->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
    time->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (failed || !offset_ms)
        return failed;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        move(time, offset_ms[TIME_OF_DAY]);
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE)
        move(time, offset_ms[RUNNING_TIME]);
    return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}

/* librdkafka waits until a time of day, which the system takes for its own. */
int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict lock,
                  const struct timespec *restrict until)
{
    int (*wait)(cnd_t *, mtx_t *, const struct timespec *) = dlsym(RTLD_NEXT, "cnd_timedwait");
    struct timespec real = *until;
    move(&real, offset_ms ? -offset_ms[TIME_OF_DAY] : 0);
    return wait(condition, lock, &real);
}
