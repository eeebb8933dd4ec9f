/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/vf.h"

#include <errno.h>

int bench_find_vf(const struct hw *hw, const char *pf, unsigned index, struct vf_state *ret,
                  struct vf_original *ret_original, struct err *e)
{
    _cleanup_free_ char *pf_address = NULL, *vf_address = NULL;
    int r = sysroot_link_name(hw->root, &pf_address, e, "sys/class/net/%s/device", pf);

    if (r == 0)
        r = sysroot_link_name(hw->root, &vf_address, e, "sys/class/net/%s/device/virtfn%u", pf,
                              index);
    if (r == 0)
        r = vf_state_read(hw, pf_address, vf_address, index, ret, e);
    if (r < 0)
        return r;
    if (!ret->home)
        return err_set(e, ERR_PERMANENT, -EBUSY, "VF %u of %s isn't home", index, pf);
    vf_original_from(ret, pf_address, ret_original);
    return 0;
}
