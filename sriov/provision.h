/* SPDX-License-Identifier: Apache-2.0 */
/*
 * VFs made, and set up before anybody asks for one: the hands of central provisioning. All calls
 * block. Which claim holds a VF isn't known here: the caller has looked.
 */
#pragma once

#include "sriov/settings.h"

/*
 * Brings the PF's interface up and reads back that it is. With `carrier_ms` waits so long for its
 * link, for some drivers refuse a rate without one; a link that doesn't come is no error.
 */
int pf_raise(const struct hw *hw, const char *pf_address, unsigned carrier_ms, struct err *e);

/*
 * Makes the PF have `count` VFs (1 to its sriov_totalvfs). If it has some other number, these are
 * removed first, for the kernel doesn't change one number into another: the caller has made sure
 * that nobody uses one. Then waits, at most `wait_ms`, until every VF is there and, unless
 * sriov_drivers_autoprobe is off, has an interface: some drivers make VFs in the background, and a
 * VF's own driver may have to be loaded first.
 *
 * Blocks for as long as the kernel removes and probes VFs, with some cards for minutes. Errors name
 * PF, number, the kernel's text and what to do: -ENODEV the PF is gone; -EIO the driver made
 * fewer than asked; -ETIMEDOUT a VF or its interface isn't there, the others stay. Nothing is put
 * back: the text says how many VFs there are now.
 */
int pf_make_vfs(const struct sysroot *r, const char *pf_address, unsigned count, unsigned wait_ms,
                struct err *e);

/*
 * An interface that has this one below it (bridge, bond, VLAN ...), as far as it is in the same
 * namespace. NULL: none. The caller frees it.
 */
char *netdev_upper(const struct sysroot *r, const char *netdev);

/* What on the host uses a VF of this state: "has the address ...", NULL if nothing. Pure. */
char *vf_host_use(const struct vf_state *s, const char *upper);

/*
 * What vf_provision() would change: settings, and what keeps the VF from being at rest and usable
 * (own MAC not the PF's entry, promiscuous). Pure; out->v is the caller's to free.
 */
void vf_provision_changes(const struct vf_state *s, const struct vf_settings *want,
                          vf_difference_vec *out);

/*
 * Brings a free VF to these settings and to rest, both sides, and reads back. The PF is brought up
 * where it is down. A VF whose own MAC isn't the PF's entry gets that, which an administrator or
 * the PF chose; a MAC isn't changed otherwise. `changed` (may be NULL) gets what was changed.
 *
 * Returns 1, or 0 if all was so already. -EBUSY: the host uses it; -EAGAIN: its interface isn't
 * here; both ERR_TRANSIENT, nothing was written. Else the text has PF, VF, setting and the kernel's
 * reason, and what was written is undone, but for a VF that is set and somebody on the host listens
 * on (-EIO, ERR_TRANSIENT).
 */
int vf_provision(const struct hw *hw, const char *pf_address, const char *vf_address,
                 unsigned index, const struct vf_settings *want, vf_difference_vec *changed,
                 struct err *e);
