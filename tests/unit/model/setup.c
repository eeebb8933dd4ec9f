/* SPDX-License-Identifier: Apache-2.0 */
/* How a sequence begins, what a reboot leaves of it, and how it ends. */
#include "tests/unit/model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

struct rng rng_of(uint64_t seed, uint64_t stream)
{
    struct rng r = {seed * 0x9e3779b97f4a7c15u + stream * 0xbf58476d1ce4e5b9u + 1};

    (void)below(&r, 1);
    return r;
}

/* splitmix64 */
unsigned below(struct rng *r, unsigned n)
{
    uint64_t z = r->s += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (unsigned)(z >> 33) % n;
}

bool chance(struct rng *r, unsigned percent)
{
    return below(r, 100) < percent;
}

/* ---- how a sequence begins */

void setup_group(struct m_group *g)
{
    static const enum mode modes[] = {MODE_PREPARE,       MODE_PREPARE, MODE_DEFER_CLEANUP,
                                      MODE_DEFER_CLEANUP, MODE_SKIP,    MODE_SKIP};

    g->mode = modes[below(&m.rng, ARRAY_SIZE(modes))];
    g->attach = chance(&m.rng, 92) ? ATTACH_NRI : ATTACH_NONE;
    g->by_driver = chance(&m.rng, 40);
    g->settings = (struct vf_settings){0};
    if (g->mode == MODE_SKIP || chance(&m.rng, 40)) {
        g->settings.set |= VF_SET_VLAN;
        g->settings.vlan_id = (uint16_t)(below(&m.rng, 3) * 100);
        g->settings.vlan_qos = g->settings.vlan_id ? (uint8_t)below(&m.rng, 3) : 0;
    }
    if (chance(&m.rng, 30)) {
        g->settings.set |= VF_SET_SPOOFCHK;
        g->settings.spoofchk = chance(&m.rng, 50);
    }
    if (chance(&m.rng, 20)) {
        g->settings.set |= VF_SET_MTU;
        g->settings.mtu = 1400;
    }
    if (chance(&m.rng, 20)) {
        g->settings.set |= VF_SET_RATE;
        g->settings.max_tx_mbps = 300;
    }
}

static void choose_pools(void)
{
    static const struct m_group ranges[GROUPS] = {
        {.pf = 0, .last = 1}, {.pf = 0, .first = 2, .last = 2}, {.pf = 1, .last = 1}};

    for (unsigned i = 0; i < GROUPS; i++) {
        m.groups[i] = ranges[i];
        setup_group(&m.groups[i]);
    }
    write_pools();
}

static void remove_files(const char *folder)
{
    _cleanup_free_ char *path = xasprintf("%s/%s", m.dir, folder);
    DIR *d = opendir(path);

    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' || strstr(e->d_name, ".tmp"))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
}

static void new_boot(void)
{
    snprintf(m.boot_id, sizeof(m.boot_id), "boot-%u", ++m.numbers);
}

void setup_sequence(uint64_t seed)
{
    struct fk *k = m.k;
    char *dir = m.dir;
    bool verbose = m.verbose;

    cluster_reset();
    m = (struct model){.k = k, .dir = dir, .verbose = verbose, .seed = seed};
    m.rng = rng_of(seed, 0);
    m.now = 1000000;
    m.wanted = true;
    m.api = API_UP;
    m.gate_api = m.gate_scheduler = chance(&m.rng, 90);
    m.gate_kubelet = m.declared = chance(&m.rng, 90);
    m.gate_taints = chance(&m.rng, 95);
    m.runtime_up = true;
    m.config = (struct node_config){.name = NODE_NAME,
                                    .driver = DRIVER_NAME,
                                    .nri_socket = "none",
                                    .sysroot = fk_root(k),
                                    .hook = ""};
    k->ways = (struct fk_ways){.mac_busy_while_up = chance(&m.rng, 20),
                               .name_busy_while_up = chance(&m.rng, 20),
                               .mark_error = chance(&m.rng, 20) ? -EPERM : 0,
                               .has_link_state = chance(&m.rng, 50)};
    fk_reboot(k);
    remove_files("claims");
    remove_files("cdi");
    new_boot();
    oracle_reset();
    kubelet_reset();
    runtime_reset();
    scheduler_reset();
    process_init();
    choose_pools();
    provision();
}

/* ---- a reboot */

void setup_after_reboot(void)
{
    m.reboot = false;
    for (unsigned i = 0; i < SANDBOXES; i++)
        m.sandboxes[i].used = false;
    for (struct m_pod *p = m.pods; p < m.pods + PODS; p++) {
        if (!p->used)
            continue;
        p->sandbox = -1;
        if (p->stage < POD_STOPPING)
            p->stage = POD_NEW;
        else if (p->stage < POD_ENDED)
            p->stage = POD_STOPPED;
    }
    fk_reboot(m.k);
    new_boot();
    remove_files("cdi"); /* /run */
    oracle_rebooted();
    if (chance(&m.rng, 70))
        provision();
    kubelet_restart();
    m.wanted = true;
}

/* ---- how it ends */

static void heal(void)
{
    m.kill_in = m.fault_in = m.interfere = 0;
    m.stuck = false;
    m.rng = rng_of(m.seed, 1u << 20);
    if (m.api != API_UP)
        cluster_set_api(API_UP);
    for (unsigned pf = 0; pf < m.k->n_pfs; pf++)
        if (!fk_pf_dev(m.k, pf)->up) {
            (void)fk_set_up(m.k, fk_pf_dev(m.k, pf), true);
            oracle_pf_changed(pf);
        }
    for (struct fk_dev *d = m.k->devs; d < m.k->devs + FK_DEVS; d++)
        if (d->kind == FK_DUMMY && d->netns == 0)
            fk_del_dev(m.k, d);
    kernel_cleans_up(&m.rng, true);
    oracle_sample();
}

static bool any_pod(void)
{
    for (unsigned i = 0; i < PODS; i++)
        if (m.pods[i].used)
            return true;
    return false;
}

/*
 * Where nothing happens the driver looks every three minutes, and that is all. What isn't well (a
 * pod deleted by force that lives on, a VF that others have to mend) is told now and then; nothing
 * is written for it either.
 */
static bool stays_quiet(void)
{
    m.did = (struct deeds){0};
    process_wait(600000);
    if (m.did.writes)
        broken("%u writes though nothing happens", m.did.writes);
    if (!m.did.complaints && (m.did.requests || m.did.publications))
        broken("on a quiet node: %u API requests, %u publications", m.did.requests,
               m.did.publications);
    if (m.did.reads == 0)
        broken("nobody looks at a quiet node");
    return !m.did.complaints;
}

void end_sequence(void)
{
    say("the end: all is well, and time passes");
    heal();
    process_wait(190000);
    oracle_end();
    if (stays_quiet())
        count_quiet();
    say("the end: no pod is left");
    for (unsigned round = 0; any_pod(); round++) {
        if (round > 60)
            broken("pods don't end");
        for (unsigned i = 0; i < PODS; i++) {
            if (!m.pods[i].used)
                continue;
            m.pods[i].terminating = true;
            pod_advance(i);
            process_settle();
        }
        kernel_cleans_up(&m.rng, true);
        process_wait(1000);
        scheduler_review();
        oracle_step();
    }
    process_wait(190000);
    oracle_end();
    if (!stays_quiet())
        broken("it complains though no pod is left");
    for (unsigned i = 0; i < CLAIMS; i++)
        if (m.claims[i].used && m.claims[i].on_disk)
            broken("claim %s is held in the end", m.claims[i].uid);
}
