# SPDX-License-Identifier: Apache-2.0
"""A system root in plain files, as a machine with igb ports has it (tests/fixtures/sysfs)."""
import contextlib
import os
import pathlib

PF_IDS, VF_IDS = ("0x8086", "0x10c9"), ("0x8086", "0x10ca")


class Sysfs:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        for folder in ("sys/bus/pci/devices", "sys/class/net"):
            (self.root / folder).mkdir(parents=True)

    def _link(self, path, target):
        """`path` becomes a relative link to `target`, both below the root."""
        path, target = self.root / path, self.root / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(os.path.relpath(target, path.parent))

    def _function(self, folder, address, ids, driver, netdev):
        for name, text in {"class": "0x020000", "vendor": ids[0], "device": ids[1], "numa_node": "-1",
                           f"net/{netdev}/type": "1", f"net/{netdev}/mtu": "1500",
                           f"net/{netdev}/flags": "0x1003", f"net/{netdev}/carrier": "1",
                           f"net/{netdev}/speed": "1000", f"net/{netdev}/dev_port": "0"}.items():
            path = self.root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        (self.root / f"sys/bus/pci/drivers/{driver}").mkdir(parents=True, exist_ok=True)
        self._link(f"{folder}/driver", f"sys/bus/pci/drivers/{driver}")
        self._link(f"sys/bus/pci/devices/{address}", folder)
        self._link(f"sys/class/net/{netdev}", f"{folder}/net/{netdev}")

    @contextlib.contextmanager
    def unplugged(self, address):
        """Without the function at this address: what was done to it is gone with it."""
        link = self.root / "sys/bus/pci/devices" / address
        target = os.readlink(link)
        link.unlink()
        yield
        link.symlink_to(target)

    def add_pf(self, bus, netdev, vfs=4, total=7):
        """A port at BUS:00.0, and its VFs at BUS:10.0, 10.2, ... as those of an 82576 are."""
        above = f"sys/devices/pci0000:00/0000:00:{bus}.0"
        address = f"0000:{bus}:00.0"
        self._function(f"{above}/{address}", address, PF_IDS, "igb", netdev)
        for name, number in {"sriov_totalvfs": total, "sriov_numvfs": vfs, "sriov_drivers_autoprobe": 1}.items():
            (self.root / above / address / name).write_text(f"{number}\n")
        for index in range(vfs):
            vf = f"0000:{bus}:10.{2 * index}"
            self._function(f"{above}/{vf}", vf, VF_IDS, "igbvf", f"{netdev}v{index}")
            self._link(f"{above}/{address}/virtfn{index}", f"{above}/{vf}")
            self._link(f"{above}/{vf}/physfn", f"{above}/{address}")
