"""Ends in a real failure of CUDA: `oom`, `assert` or `illegal`; only the rank that is named does."""

import ctypes
import os
import sys
import time

import torch

if os.environ["RANK"] != sys.argv[2]:
    time.sleep(600)
if sys.argv[1] == "oom":
    held = []
    while True:
        held.append(torch.empty(8 << 30, dtype=torch.uint8, device="cuda"))
elif sys.argv[1] == "illegal":
    torch.zeros(1, device="cuda")
    driver, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
    code = b".version 7.0\n.target sm_50\n.address_size 64\n.visible .entry wild() {\n.reg .u64 %a; .reg .u32 %v;\n"
    code += b"mov.u64 %a, 0x7ff0000000; mov.u32 %v, 1; st.global.u32 [%a], %v; ret; }\n"
    assert driver.cuModuleLoadData(ctypes.byref(module), code) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"wild") == 0
    assert driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    torch.cuda.synchronize()
else:
    table = torch.randn(10, 4, device="cuda")
    torch.nn.functional.embedding(torch.tensor([11], device="cuda"), table)
    torch.cuda.synchronize()
