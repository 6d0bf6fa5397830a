/* A clock that is off: programs that load this see the real-time clock shifted by the nanoseconds that $CLOCK_FILE holds
   at that moment. Sleeps and the steady clock are as ever. Without headers, so that a compiler alone builds it. */
typedef struct { long s, ns; } spec;
long syscall(long, ...);
int open(const char *, int, ...);
int close(int);
void *mmap(void *, unsigned long, int, int, int, long);
char *getenv(const char *);

#if defined(__aarch64__)
#define CLOCK_GETTIME 113
#else
#define CLOCK_GETTIME 228
#endif
#define SECOND 1000000000L

static volatile long *shift;
static long none;

static long shifted(void) {
    if (!shift) {
        const char *path = getenv("CLOCK_FILE");
        int file = path ? open(path, 02000000) : -1; /* O_CLOEXEC */
        void *there = file < 0 ? (void *)-1 : mmap(0, 8, 1, 1, file, 0);
        if (file >= 0) close(file);
        shift = there == (void *)-1 ? &none : there;
    }
    return *shift;
}

int clock_gettime(int clock, spec *at) {
    int failed = syscall(CLOCK_GETTIME, clock, at);
    if (!failed && (clock == 0 || clock == 5)) { /* CLOCK_REALTIME, and the coarse one */
        long now = at->s * SECOND + at->ns + shifted();
        at->s = now / SECOND;
        at->ns = now % SECOND;
    }
    return failed;
}

int gettimeofday(spec *at, void *zone) {
    spec now;
    clock_gettime(0, &now);
    at->s = now.s;
    at->ns = now.ns / 1000; /* microseconds */
    return 0;
}

long time(long *into) {
    spec now;
    clock_gettime(0, &now);
    if (into) *into = now.s;
    return now.s;
}
