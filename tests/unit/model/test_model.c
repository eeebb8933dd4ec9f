/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-model [--seed N] [--sequences N] [--steps N,N,...] [-q]: runs sequences of steps, each in
 * the order that its seed gives. What fails is made as short as it gets, and told so that it can be
 * run again: all of a sequence is in its seed.
 */
#include "tests/unit/model/model.h"

#include "tests/unit/test.h"

#include <getopt.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SEQUENCES 1000
#define STEPS_MAX 64
#define LIMIT_S   60 /* of one sequence that is run again */

struct model m;

/* What is allocated where, and a cache full of what was freed, would take a third of the time. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "malloc_context_size=1:quarantine_size_mb=8";
}

/* What a child tells, whatever becomes of it. */
struct report {
    uint64_t seed;
    unsigned step, done, quiet;
    bool ended;
    char text[1024];
};

static struct report *report;

/* Which steps of a sequence are run. */
struct plan {
    uint64_t seed;
    bool left_out[STEPS_MAX];
};

static const struct plan *plan;
static unsigned next_step;

void broken(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(report->text, sizeof(report->text), fmt, ap);
    va_end(ap);
    say("FAILS: %s", report->text);
    fflush(stdout);
    _exit(3);
}

void count_quiet(void)
{
    report->quiet++;
}

static unsigned steps_of(uint64_t seed)
{
    struct rng r = rng_of(seed, 1u << 21);

    return 30 + below(&r, 21);
}

/* As long as the driver is as it was, up or down. */
static void take_steps(void)
{
    unsigned n = steps_of(plan->seed);
    bool up = m.up;

    while (next_step < n && !m.dead && !m.reboot && (up ? !process_ended() : !m.wanted)) {
        unsigned i = next_step++;

        if (plan->left_out[i])
            continue;
        report->step = i;
        steps_do(i);
    }
}

static void steps_in_loop(void)
{
    take_steps();
    if (next_step < steps_of(plan->seed) || m.dead || m.reboot || process_ended())
        return;
    report->step = next_step;
    end_sequence();
    m.over = true;
}

static void run_sequence(const struct plan *p)
{
    unsigned n = steps_of(p->seed), failed = 0;

    plan = p;
    next_step = 0;
    report->seed = p->seed;
    report->step = 0;
    setup_sequence(p->seed);
    while (!m.over) {
        if (m.reboot) {
            setup_after_reboot();
        } else if (!m.wanted && next_step < n) {
            take_steps();
        } else {
            m.wanted = false;
            if (process_run(steps_in_loop) < 0) {
                if (++failed > 20)
                    broken("the driver doesn't start");
                m.wanted = true;
                process_wait(1000);
            }
        }
    }
    process_done();
    report->done++;
}

static void run_all(uint64_t first, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        run_sequence(&(struct plan){.seed = first + i});
    if (n >= 100 && report->quiet < n / 2)
        broken("only %u of %u sequences came to a quiet node with pods", report->quiet, n);
}

static void start_model(void)
{
    char shm[] = "/dev/shm/sriov-model-XXXXXX", tmp[] = "/tmp/sriov-model-XXXXXX";
    const char *dir = mkdtemp(shm);

    if (!dir)
        dir = mkdtemp(tmp);
    assert_non_null(dir);
    m.dir = xstrdup(dir);
    m.k = fk_new(&(struct fk_config){.n_pfs = 2, .n_vfs = {3, 2}});
}

static void end_model(void)
{
    fk_free(m.k);
    free(m.dir);
}

/* In a child, which a failure or a crash ends. True if it came to the end. */
static bool try(const struct plan *p, uint64_t first, unsigned n, bool verbose, unsigned limit_s)
{
    int status;

    *report = (struct report){0};
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        m.verbose = verbose;
        (void)alarm(limit_s);
        if (p)
            run_sequence(p);
        else
            run_all(first, n);
        report->ended = true;
        exit(0); /* LeakSanitizer looks then */
    }
    if (waitpid(pid, &status, 0) != pid)
        return false;
    if (!report->text[0] && WIFSIGNALED(status))
        snprintf(report->text, sizeof(report->text), "signal %d", WTERMSIG(status));
    else if (!report->text[0] && status)
        snprintf(report->text, sizeof(report->text), "status %d", WEXITSTATUS(status));
    return status == 0 && report->ended;
}

/* Leaves out what isn't needed for it to fail, in pieces that get smaller. */
static void shorten(struct plan *p)
{
    unsigned n = report->step + 1;

    if (n > STEPS_MAX)
        n = STEPS_MAX;
    for (unsigned i = n; i < STEPS_MAX; i++)
        p->left_out[i] = true;
    for (unsigned size = n / 2; size >= 1; size /= 2)
        for (unsigned at = 0; at < n; at += size) {
            struct plan less = *p;
            bool any = false;

            for (unsigned i = at; i < at + size && i < n; i++) {
                any |= !less.left_out[i];
                less.left_out[i] = true;
            }
            if (any && !try(&less, 0, 0, false, LIMIT_S))
                *p = less;
        }
}

static void tell_failure(void)
{
    struct plan p = {.seed = report->seed};
    _cleanup_free_ char *first = xstrdup(report->text);
    struct strbuf steps = {0};
    unsigned at = report->step;

    shorten(&p);
    (void)try(&p, 0, 0, true, LIMIT_S);
    for (unsigned i = 0; i < steps_of(p.seed); i++)
        if (!p.left_out[i])
            strbuf_printf(&steps, "%s%u", steps.len ? "," : "", i);
    printf(
        "# seed %llu, step %u: %s\n# again, and shorter: test-model --seed %llu --steps %s\n# %s\n",
        (unsigned long long)p.seed, at, first, (unsigned long long)p.seed, steps.s ?: "none",
        report->text);
    strbuf_done(&steps);
}

static void take_list(struct plan *p, const char *list)
{
    for (unsigned i = 0; i < STEPS_MAX; i++)
        p->left_out[i] = true;
    for (char *end; *list; list = *end ? end + 1 : end) {
        unsigned long i = strtoul(list, &end, 10);

        if (end == list)
            return;
        if (i < STEPS_MAX)
            p->left_out[i] = false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seed", required_argument, NULL, 's'},
                                            {"sequences", required_argument, NULL, 'n'},
                                            {"steps", required_argument, NULL, 'l'},
                                            {0}};
    struct plan p = {0};
    unsigned n = 0;
    bool quiet = false, listed = false;

    for (int c; (c = getopt_long(argc, argv, "q", options, NULL)) != -1;)
        switch (c) {
        case 's':
            p.seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            n = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'l':
            take_list(&p, optarg);
            listed = true;
            break;
        case 'q':
            quiet = true;
            break;
        default:
            fprintf(stderr, "usage: %s [--seed N] [--sequences N] [--steps N,...] [-q]\n", argv[0]);
            return 2;
        }
    setvbuf(stdout, NULL, _IOLBF, 0);
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(report != MAP_FAILED);
    start_model();
    puts("1..1");
    bool ok, one = p.seed && !n;
    if (one || listed)
        ok = try(&p, 0, 0, !quiet, 0);
    else
        ok = try(NULL, p.seed ? p.seed : 1, n ? n : SEQUENCES, false, 0);
    if (one || listed)
        printf("%s 1 - seed %llu%s%s\n", ok ? "ok" : "not ok", (unsigned long long)p.seed,
               ok ? "" : ": ", report->text);
    else if (ok)
        printf("ok 1 - %u sequences\n# %u with pods on a node that was quiet in the end\n",
               report->done, report->quiet);
    else {
        tell_failure();
        puts("not ok 1 - sequences");
    }
    end_model();
    return ok ? 0 : 1;
}
