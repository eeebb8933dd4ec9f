/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands by which tests/hw/test_vf_hw.c acts as an administrator and as a pod, carried out on
 * the fake kernel: what ip(8) would send. A command that isn't known here ends the program.
 */
#include "tests/hw/hw.h"
#include "tests/unit/fakekernel/fakekernel.h"

#include <ctype.h>
#include <errno.h>

#define WORDS_MAX 24

struct words {
    char *w[WORDS_MAX + 1];
    size_t n;
};

static void unknown(const char *what)
{
    hw_fail(__FILE__, __LINE__, what, NULL);
}

static bool is(const struct words *w, size_t i, const char *text)
{
    return i < w->n && streq(w->w[i], text);
}

static void take_mac(const char *text, struct mac *ret)
{
    if (mac_parse(text, ret) < 0)
        unknown(text);
}

/* "vf N mac M", "vf N vlan V [qos Q]", "vf N trust on". */
static int set_vf(struct fk *k, const struct fk_dev *pf, struct words *w, size_t at)
{
    struct vf_change c = {.index = (unsigned)atoi(w->w[at])};

    for (size_t i = at + 1; i + 1 < w->n; i += 2) {
        const char *value = w->w[i + 1];

        if (is(w, i, "mac")) {
            c.set |= VF_FIELD_MAC;
            take_mac(value, &c.mac);
        } else if (is(w, i, "vlan")) {
            c.set |= VF_FIELD_VLAN;
            c.vlan_id = (uint16_t)atoi(value);
        } else if (is(w, i, "qos")) {
            c.vlan_qos = (uint8_t)atoi(value);
        } else if (is(w, i, "trust")) {
            c.set |= VF_FIELD_TRUST;
            c.trust = streq(value, "on");
        } else {
            unknown(w->w[i]);
        }
    }
    return fk_set_vf(k, pf->pf, &c, NULL);
}

/* "ip link set DEV ..." */
static int link_set(struct fk *k, int netns, struct words *w, size_t at)
{
    struct fk_dev *d = fk_find(k, netns, w->w[at]);
    int r = 0;

    if (!d)
        return -ENODEV;
    for (size_t i = at + 1; r == 0 && i < w->n; i++) {
        const char *value = i + 1 < w->n ? w->w[i + 1] : "";

        if (is(w, i, "vf"))
            return set_vf(k, d, w, i + 1);
        if (is(w, i, "up") || is(w, i, "down")) {
            r = fk_set_up(k, d, is(w, i, "up"));
            continue;
        }
        if (is(w, i, "address")) {
            struct mac mac;

            take_mac(value, &mac);
            r = fk_set_mac(k, d, &mac);
        } else if (is(w, i, "mtu")) {
            r = fk_set_mtu(k, d, (uint32_t)atoi(value), NULL);
        } else if (is(w, i, "name")) {
            r = fk_rename(k, d, value);
        } else if (is(w, i, "promisc")) {
            fk_set_promisc(k, d, streq(value, "on"), d->allmulti);
        } else if (is(w, i, "allmulticast")) {
            fk_set_promisc(k, d, d->promisc, streq(value, "on"));
        } else {
            unknown(w->w[i]);
        }
        i++;
    }
    return r;
}

static int addr_change(struct fk *k, int netns, const struct words *w)
{
    struct ipnet a;
    struct fk_dev *d = NULL;

    for (size_t i = 0; i + 1 < w->n; i++)
        if (is(w, i, "dev"))
            d = fk_find(k, netns, w->w[i + 1]);
    if (!d || ipnet_parse(w->w[2], true, &a) < 0)
        unknown(w->w[2]);
    return fk_add_addr(k, d, &a);
}

/* "... route | grep -q '203.0.113.0/24 via 192.0.2.2 dev net1'": the two addresses are enough. */
static int route_grep(struct fk *k, int netns, const struct words *w)
{
    const char *wanted = w->w[w->n - 1];
    char to[IPNET_TEXT_SIZE], via[IPNET_TEXT_SIZE];

    for (const struct fk_dev *d = k->devs; d < k->devs + FK_DEVS; d++)
        for (unsigned i = 0; d->kind && d->netns == netns && i < d->n_routes; i++) {
            ipnet_text(&d->routes[i].to, to);
            ipnet_text(&d->routes[i].via, via);
            *strchrnul(via, '/') = '\0';
            if (strstr(wanted, to) && strstr(wanted, via) && strstr(wanted, d->name))
                return 0;
        }
    return -ENOENT;
}

static int ping(struct fk *k, int netns, const struct words *w)
{
    struct ipnet to;

    if (ipnet_parse(w->w[w->n - 1], false, &to) < 0)
        unknown(w->w[w->n - 1]);
    to.prefix = 24;
    return fk_reaches(k, netns, &to) ? 0 : -EHOSTUNREACH;
}

static int command(int netns, const char *text);

static int ip(struct fk *k, int netns, struct words *w)
{
    if (is(w, 1, "-n") || (is(w, 1, "netns") && is(w, 2, "exec"))) {
        size_t skip = is(w, 1, "-n") ? 2 : 4;
        int inner = fk_netns_find(k, w->w[skip - (is(w, 1, "-n") ? 0 : 1)]);

        if (inner < 0)
            return -ENOENT;
        memmove(&w->w[is(w, 1, "-n") ? 1 : 0], &w->w[skip + (is(w, 1, "-n") ? 1 : 0)],
                (w->n - skip) * sizeof(*w->w));
        w->n -= skip;
        if (is(w, 0, "ping"))
            return ping(k, inner, w);
        if (is(w, 0, "sh"))
            return command(inner, w->w[2]);
        return ip(k, inner, w);
    }
    if (is(w, 1, "-6")) {
        memmove(&w->w[1], &w->w[2], (w->n - 2) * sizeof(*w->w));
        w->n--;
    }
    if (is(w, 1, "netns") && is(w, 2, "add"))
        return fk_netns_find(k, w->w[3]) >= 0 ? -EEXIST : (fk_netns_add(k, w->w[3]), 0);
    if (is(w, 1, "netns") && is(w, 2, "del")) {
        int n = fk_netns_find(k, w->w[3]);

        return n < 0 ? -ENOENT : (fk_netns_unmount(k, n), 0);
    }
    if (is(w, 1, "link") && is(w, 2, "set"))
        return link_set(k, netns, w, 3);
    if (is(w, 1, "link") && is(w, 2, "add"))
        return fk_add_dummy(k, netns, w->w[3]) ? 0 : -EEXIST;
    if (is(w, 1, "link") && is(w, 2, "del")) {
        struct fk_dev *d = fk_find(k, netns, w->w[3]);

        return d ? (fk_del_dev(k, d), 0) : -ENODEV;
    }
    if (is(w, 1, "link") && is(w, 2, "property")) {
        struct fk_dev *d = fk_find(k, netns, w->w[5]);

        return d ? fk_add_altname(k, d, w->w[7]) : -ENODEV;
    }
    if (is(w, 1, "addr") && is(w, 2, "add")) {
        memmove(&w->w[2], &w->w[3], (w->n - 3) * sizeof(*w->w));
        w->n--;
        return addr_change(k, netns, w);
    }
    if (is(w, 1, "route"))
        return route_grep(k, netns, w);
    if (is(w, 1, "neigh"))
        return 0;
    unknown(w->w[1]);
    return -1;
}

/* "echo N >/sys/class/net/PF/device/sriov_numvfs" */
static int echo(struct fk *k, const struct words *w)
{
    char name[IFNAMSIZ];

    if (w->n != 3 || sscanf(w->w[2], ">/sys/class/net/%15[^/]/device/sriov_numvfs", name) != 1)
        unknown(w->w[0]);
    const struct fk_dev *d = fk_find(k, 0, name);
    if (!d || d->kind != FK_PF)
        return -ENOENT;
    fk_set_num_vfs(k, d->pf, (unsigned)atoi(w->w[1]));
    return 0;
}

static int simple(struct fk *k, int netns, struct words *w)
{
    if (w->n == 0 || is(w, 0, "udevadm"))
        return 0;
    if (is(w, 0, "sleep")) { /* long enough for the kernel to clean up */
        for (int i = 1; i < FK_NETNS; i++)
            if (k->netns[i].alive && !k->netns[i].mounted)
                fk_netns_end(k, i);
        return 0;
    }
    if (is(w, 0, "ip"))
        return ip(k, netns, w);
    if (is(w, 0, "echo"))
        return echo(k, w);
    unknown(w->w[0]);
    return -1;
}

static bool is_redirection(const char *word)
{
    return str_skip(word, "2>") || streq(word, ">/dev/null");
}

/* Commands separated by ";", single quotes, redirections to nowhere. The last one's status. */
static int command(int netns, const char *text)
{
    _cleanup_free_ char *copy = xstrdup(text);
    struct words w = {0};
    int r = 0;

    for (char *p = copy;;) {
        while (isspace((unsigned char)*p))
            p++;
        if (!*p || *p == ';') {
            bool end = !*p;

            r = simple(fk_current, netns, &w);
            w = (struct words){0};
            if (end)
                return r;
            p++;
            continue;
        }
        if (w.n == WORDS_MAX)
            unknown(text);
        if (*p == '\'') {
            w.w[w.n++] = ++p;
            p = strchr(p, '\'');
            *p++ = '\0';
            continue;
        }
        char *word = p;
        while (*p && !isspace((unsigned char)*p) && *p != ';')
            p++;
        char after = *p;
        *p = '\0';
        if (!is_redirection(word) && !streq(word, "|"))
            w.w[w.n++] = word;
        if (after == ';' || !after) {
            r = simple(fk_current, netns, &w);
            w = (struct words){0};
        }
        if (!after)
            return r;
        p++;
    }
}

int shell(const char *text)
{
    int r = command(0, text);

    if (fk_current->on_trace) {
        _cleanup_free_ char *line = xasprintf("%s: %d", text, r);

        fk_current->on_trace(line, NULL);
    }
    return r < 0 ? 1 : 0;
}

static void show(const char *text, void *data)
{
    (void)data;
    printf("# %s\n", text);
}

void lab_open(struct lab *l)
{
    if (!fk_current)
        (void)fk_new(&(struct fk_config){.n_pfs = 2, .n_vfs = {7, 7}});
    if (getenv("FAKEKERNEL_TRACE"))
        fk_current->on_trace = show;
    l->on_hardware = false;
}

const char *lab_root(void)
{
    return fk_root(fk_current);
}

void lab_close(void)
{
    fk_free(fk_current);
}
