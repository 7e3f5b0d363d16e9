// Functions of the CUDA runtime and driver that CUDASTF's headers name, so that the linker wants
// them, and that no program here calls. Whoever calls one is told its name. No header of CUDA is
// included: the linker does not ask for arguments.

#include <cstdio>
#include <cstdlib>

#define ABSENT(name)                                             \
    extern "C" void name() {                                     \
        std::fputs(#name " is not implemented here\n", stderr); \
        std::abort();                                            \
    }

ABSENT(cuCtxFromGreenCtx)
ABSENT(cuCtxGetDevResource)
ABSENT(cuCtxGetId)
ABSENT(cuDevResourceGenerateDesc)
ABSENT(cuDevSmResourceSplitByCount)
ABSENT(cuGreenCtxCreate)
ABSENT(cuMemAddressFree)
ABSENT(cuMemAddressReserve)
ABSENT(cuMemCreate)
ABSENT(cuMemGetAllocationGranularity)
ABSENT(cuMemMap)
ABSENT(cuMemRelease)
ABSENT(cuMemSetAccess)
ABSENT(cuMemUnmap)
ABSENT(cudaDeviceGetAttribute)
ABSENT(cudaEventElapsedTime)
ABSENT(cudaHostRegister)
ABSENT(cudaHostUnregister)
ABSENT(cudaMallocManaged)
