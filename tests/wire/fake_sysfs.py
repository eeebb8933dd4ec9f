# SPDX-License-Identifier: Apache-2.0
"""A system root in plain files, as a machine with igb ports has it (tests/fixtures/sysfs)."""
import contextlib
import os
import pathlib
import shutil
import threading

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
        folder, address = self._pf(bus)
        self._function(folder, address, PF_IDS, "igb", netdev)
        for name, number in {"sriov_totalvfs": total, "sriov_numvfs": vfs, "sriov_drivers_autoprobe": 1}.items():
            (self.root / folder / name).write_text(f"{number}\n")
        self._add_vfs(bus, netdev, vfs)

    @staticmethod
    def _pf(bus):
        """Folder and address."""
        return f"sys/devices/pci0000:00/0000:00:{bus}.0/0000:{bus}:00.0", f"0000:{bus}:00.0"

    def _add_vfs(self, bus, netdev, vfs):
        pf, _ = self._pf(bus)
        for index in range(vfs):
            vf = f"0000:{bus}:10.{2 * index}"
            folder = f"{os.path.dirname(pf)}/{vf}"
            self._function(folder, vf, VF_IDS, "igbvf", f"{netdev}v{index}")
            self._link(f"{pf}/virtfn{index}", folder)
            self._link(f"{folder}/physfn", pf)

    def _remove_vfs(self, bus):
        pf, _ = self._pf(bus)
        for link in list((self.root / pf).glob("virtfn*")):
            folder = link.resolve()
            for netdev in (folder / "net").glob("*"):
                (self.root / "sys/class/net" / netdev.name).unlink()
            (self.root / "sys/bus/pci/devices" / folder.name).unlink()
            shutil.rmtree(folder)
            link.unlink()

    @contextlib.contextmanager
    def kernel(self, bus, netdev):
        """Makes VFs while it lasts, as whoever writes to sriov_numvfs of the port at BUS:00.0 wants."""
        numvfs = self.root / self._pf(bus)[0] / "sriov_numvfs"
        now, end = numvfs.read_text(), threading.Event()

        def work():
            before = now
            while not end.wait(0.01):
                wanted = numvfs.read_text()
                if wanted and wanted != before:  # empty: being written
                    before = wanted
                    self._remove_vfs(bus)
                    self._add_vfs(bus, netdev, int(wanted))
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
