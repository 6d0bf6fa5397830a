"""What goes into the lab's images. The text of this file names the cache, so a change here builds new ones."""

VERSION = 1
"""Raise it when `images.py` starts to build something else from the same lists."""

SUITE = "bookworm"
PYTHON = "3.11"
BASE_PACKAGES = (
    *("base-files", "base-passwd", "bash", "coreutils", "dash", "debianutils", "findutils", "grep", "hostname"),
    *("iproute2", "libc-bin", "libgomp1", "libpython3-stdlib", "libstdc++6", "mawk", "procps"),
    *("python3-minimal", "sed", "util-linux"),
)
EXCLUDED = ("doc", "man", "locale", "info")
WHEELS = ("torch==2.13.0", "numpy<3")
SITE = "usr/lib/python3/dist-packages"
UNUSED = ("torch/test", "torch/include", "torch/share", "torch/bin/protoc*")
CHANGES = (
    'CMD ["python3"]',
    "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "ENV LANG=C.UTF-8",
)
WARM_UP = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
import torch.utils.data, torch.utils.data.distributed
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29555', GLOO_SOCKET_IFNAME='lo')
dist.init_process_group('gloo', rank=0, world_size=1)
model = DDP(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 2)).sum().backward()
optimizer.step()
dist.destroy_process_group()
"""
