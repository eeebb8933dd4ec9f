/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packets send ADDRESS PORT LOG: numbered UDP datagrams, ten a second by this machine's clock; one
 * that comes late makes none of the next late. packets receive PORT LOG. A line of the log is a
 * number, when it was sent and, of the receiver, when it came, in microseconds since the epoch; of
 * the sender how late it was, and errno. Built without libraries, for a pod.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS 100000000

struct packet {
    uint64_t number, sent_us;
};

static int64_t now(clockid_t clock, int64_t unit)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (t.tv_sec * 1000000000LL + t.tv_nsec) / unit;
}

/* A container's first process has no default for it. */
static void stop(int s)
{
    (void)s;
    _exit(0);
}

static void send_all(int s, const struct sockaddr_in *to, FILE *log)
{
    int64_t due = now(CLOCK_MONOTONIC, 1);

    for (uint64_t n = 1;; n++, due += PERIOD_NS) {
        const struct timespec at = {due / 1000000000, due % 1000000000};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
            ;
        struct packet p = {n, (uint64_t)now(CLOCK_REALTIME, 1000)};
        ssize_t r = sendto(s, &p, sizeof(p), 0, (const struct sockaddr *)to, sizeof(*to));
        int error = r < 0 ? errno : 0;
        fprintf(log, "%ju %ju %jd %d\n", (uintmax_t)n, (uintmax_t)p.sent_us,
                (intmax_t)((now(CLOCK_MONOTONIC, 1) - due) / 1000), error);
    }
}

static void receive_all(int s, FILE *log)
{
    struct packet p;

    for (;;)
        if (recv(s, &p, sizeof(p), 0) == sizeof(p))
            fprintf(log, "%ju %ju %jd\n", (uintmax_t)p.number, (uintmax_t)p.sent_us,
                    (intmax_t)now(CLOCK_REALTIME, 1000));
}

int main(int argc, char **argv)
{
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET};
    FILE *log = argc > 1 ? fopen(argv[argc - 1], "w") : NULL;

    if (s < 0 || !log)
        return 2;
    setvbuf(log, NULL, _IOLBF, 0);
    signal(SIGTERM, stop);
    if (argc == 5 && strcmp(argv[1], "send") == 0 &&
        inet_pton(AF_INET, argv[2], &a.sin_addr) == 1) {
        a.sin_port = htons((uint16_t)atoi(argv[3]));
        send_all(s, &a, log);
    } else if (argc == 4 && strcmp(argv[1], "receive") == 0) {
        a.sin_port = htons((uint16_t)atoi(argv[2]));
        if (bind(s, (struct sockaddr *)&a, sizeof(a)) < 0)
            return 2;
        receive_all(s, log);
    }
    return 2;
}
