"""Makes kernels.ptx of kernels.cu. No GPU is needed, and no CUDA but one library:

    pip download --no-deps nvidia-cuda-nvrtc-cu12==12.4.127 && unzip nvidia_cuda_nvrtc*.whl
    LD_LIBRARY_PATH=nvidia/cuda_nvrtc/lib python3 make.py nvidia/cuda_nvrtc/lib/libnvrtc.so.12

The kernels use nothing newer than version 6.5 of PTX, so that is what the file says: drivers since
CUDA 10.2 take it, for every device since compute capability 5.2. `ptxas` of the wheels
nvidia-cuda-nvcc-cu12 and nvidia-cuda-nvcc accepts it for each of their architectures.
"""

import ctypes
import pathlib
import re
import sys

here = pathlib.Path(__file__).parent
nvrtc = ctypes.CDLL(sys.argv[1])


def checked(code, program=None):
    if code != 0:
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(f"NVRTC returned {code}\n{log.value.decode()}")


program = ctypes.c_void_p()
source = (here / "kernels.cu").read_bytes()
checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernels.cu", 0, None, None))
# Without fused operations, so that the numbers are those of plain arithmetic.
options = (ctypes.c_char_p * 2)(b"--gpu-architecture=compute_52", b"--fmad=false")
checked(nvrtc.nvrtcCompileProgram(program, 2, options), program)
size = ctypes.c_size_t()
nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
text = ctypes.create_string_buffer(size.value)
nvrtc.nvrtcGetPTX(program, text)
lines = [line for line in text.value.decode().splitlines() if not line.startswith("//")]
made = re.sub(r"^\.version .*$", ".version 6.5", "\n".join(lines).strip(), flags=re.M)
(here / "kernels.ptx").write_text(made + "\n")
